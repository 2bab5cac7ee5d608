#!/usr/bin/python3
"""extract-vmlinux.py BZIMAGE VMLINUX: unpacks the kernel inside a bzImage.

An emulated CPU takes several seconds to decompress a kernel, the host a fraction of one, and
QEMU's microvm boots the unpacked ELF file directly. Where the payload lies is said by the
header of the x86 boot protocol (version 2.08 and later, Documentation/arch/x86/boot.rst).
"""
import lzma
import struct
import subprocess
import sys
import zlib


def payload(image):
    """The compressed kernel inside a bzImage, as the boot protocol's header describes it."""
    if image[0x202:0x206] != b"HdrS" or struct.unpack_from("<H", image, 0x206)[0] < 0x208:
        sys.exit(f"extract-vmlinux: {sys.argv[1]} is no bzImage of boot protocol 2.08 or later")
    setup_bytes = (image[0x1F1] + 1) * 512
    offset, length = struct.unpack_from("<II", image, 0x248)
    return image[setup_bytes + offset:setup_bytes + offset + length]


def unpack(data):
    """Decompresses by magic number; the build appends a size word, so trailing bytes are fine."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        # zstd reports the size word as an error after having written everything.
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout
    sys.exit(f"extract-vmlinux: unknown compression (first bytes {data[:4].hex()})")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: extract-vmlinux.py BZIMAGE VMLINUX")
    with open(sys.argv[1], "rb") as f:
        kernel = unpack(payload(f.read()))
    if kernel[:4] != b"\x7fELF":
        sys.exit(f"extract-vmlinux: no ELF kernel came out of {sys.argv[1]}")
    with open(sys.argv[2], "wb") as f:
        f.write(kernel)


main()
