# Counting what passes, for the scripts that run tests; to be sourced.

passed=0
failed=0

# check NAME COMMAND...: one test, which passes if the command succeeds.
check() {
    local name=$1
    shift
    echo "== $name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}

# suite NAME COMMAND...: a script that ends with verdict's line, whose numbers are added. Says how long it took.
suite() {
    local name=$1 log status=0 began=$SECONDS
    shift
    log=$(mktemp)
    echo "== $name"
    "$@" | tee "$log" || status=$?
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        [ "$status" = 0 ] || [ "${BASH_REMATCH[2]}" != 0 ] || failed=$((failed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name broke off"
    fi
    echo "-- $name took $((SECONDS - began)) s"
    rm -f "$log"
}

# verdict: the last line of every script, and its exit status.
verdict() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
