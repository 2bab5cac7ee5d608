# What every target of ours is compiled with.
add_library(sfab_warnings INTERFACE)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
target_compile_options(sfab_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
                       -Wmissing-prototypes -Wpointer-arith -Werror -fno-common)
if(SFAB_SANITIZE)
    target_compile_options(sfab_warnings INTERFACE -fsanitize=${SFAB_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(sfab_warnings INTERFACE -fsanitize=${SFAB_SANITIZE})
    # A shared library of sanitized objects needs the sanitizer too.
    add_link_options(-fsanitize=${SFAB_SANITIZE})
endif()
set(CMAKE_C_EXTENSIONS OFF)
