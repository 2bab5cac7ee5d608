# job.sh: runs in the guest, inside the host's file tree; started by init.
# Makes the RDMA devices, runs the command, and brings its two output streams and its exit status
# to the control folder, where the host picks them up. The host writes env.sh beside this file: it
# sets softroce_layout, softroce_count, softroce_dir and the arrays softroce_environment
# (NAME=value, for the command alone) and softroce_command.
control=/run/softroce

# Says why there will be no status; the host reports it and fails.
refuse()
{
    echo "$1" >$control/refused.new
    mv $control/refused.new $control/refused
    exit 1
}

. $control/layouts.sh
. $control/env.sh
"layout_$softroce_layout" "$softroce_count" || refuse "the RDMA devices did not come up"
ulimit -l unlimited || refuse "the locked-memory limit could not be lifted"
cd "$softroce_dir" || refuse "the folder $softroce_dir cannot be entered in the guest"

# Pipes, not files: a program may reopen /dev/stderr, which would truncate a file.
mkfifo /run/softroce-stdout /run/softroce-stderr
cat </run/softroce-stdout >$control/stdout &
out_cat=$!
cat </run/softroce-stderr >$control/stderr &
err_cat=$!
: >$control/up

(
    export "${softroce_environment[@]}"
    exec "${softroce_command[@]}"
) >/run/softroce-stdout 2>/run/softroce-stderr
status=$?

# A process left in the background may hold the pipes open: do not wait for it for ever.
for ((i = 0; i < 20; i++)); do
    kill -0 $out_cat 2>/dev/null || kill -0 $err_cat 2>/dev/null || break
    sleep 0.05
done
sync
echo $status >$control/status.new
mv $control/status.new $control/status
