"""The process that runs the checks and writes a line of JSON for each."""

import argparse
import json
import sys

from keras_attn.quiet import import_tensorflow


def main() -> None:
    """Run the checks from number `--start` on.

    Messages: `{"machine": description, "checks": number}`, for each check
    `{"begin": {"index", "group", "name"}}` and `{"row": ...}`, at last `{"done": true}`; or
    `{"refused": why}` if there are no such devices or checks.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--devices", nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    import_tensorflow()
    from device_checks import every_check, machine, outcome
    from keras_attn.errors import UserError

    try:
        found = machine.find_machine(options.devices)
    except UserError as error:
        _write({"refused": str(error)})
        return
    checks = every_check.list_checks(found, options.quick, options.only)
    if not checks:
        _write({"refused": f"No check has a name with any of {', '.join(options.only)}."})
        return
    _write({"machine": machine.description(found), "checks": len(checks)})
    for index, check in list(enumerate(checks))[options.start :]:
        _write({"begin": {"index": index, "group": check.group, "name": check.name}})
        _write({"row": outcome.row_of(check)})
    _write({"done": True})


def _write(message: dict) -> None:
    print(f"\n{json.dumps(message)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
