"""Whether the library is right on your GPUs or your TPU, and how fast: one report to send.

    python benchmarks/devices.py                     # a TPU, else all GPUs, else two logical CPUs
    python benchmarks/devices.py --quick             # a few minutes
    python benchmarks/devices.py --devices GPU:0 GPU:1 --output report.json
    python benchmarks/devices.py --only LSTM XLA     # the rows whose names have one of these words

- every layer computes what it computes in float64 on a CPU, outputs and gradients (without TF32)
- cuDNN's kernels are taken where they should be and agree with our loops
- `training.fit` on one and on all devices ends at the weights of one CPU device; with XLA too, and
  in mixed precision
- peak memory, and tokens a second of training steps: medians, on one device and on all, in float32
  and bfloat16, with XLA and without

A check that fails is a row with the first line of its error, one that ends its process or hangs is
a row too, and the others go on. The exit code is 0 if everything held, 1 if something did not and 2
if nothing was checked. Please send the file that it writes, whatever it says.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from device_checks.outcome import FAILED, HELD, MEASURED, SKIPPED
from device_checks.watching import watch
from report import content_of, write_content
from rich.console import Console
from rich.markup import escape

PROGRAM = Path(__file__).parent / "device_checks" / "program.py"
COLORS = {HELD: "green", FAILED: "bold red", MEASURED: "cyan", SKIPPED: "yellow"}


def main(arguments: list[str] | None = None, program: Path = PROGRAM) -> int:
    """Run the checks, print and write the report, and return the exit code."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    machine, rows = None, []
    for message in watch(_command(options, program), options.patience):
        if "refused" in message:
            console.print(f"[red]{escape(message['refused'])}[/]")
            break
        if "machine" in message and machine is None:
            machine = message["machine"]
            console.print(f"{message['checks']} checks on {', '.join(machine['devices'])}")
        if "row" in message:
            rows.append(message["row"])
            _print_row(console, rows)
    if machine is None:
        return 2
    summary = summary_of(machine, rows)
    console.print(f"\n{escape(summary)}")
    figures = {"machine": machine, "summary": summary.splitlines(), "rows": rows}
    note = f"run on {machine['kind']}s only" if machine["kind"] == "CPU" else ""
    write_content(Path(options.output), content_of(figures, note))
    complete = "done" in message
    return 0 if complete and all(row["status"] != FAILED for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", nargs="+", type=_device, default=[], help="GPU:0, CPU:1, TPU")
    parser.add_argument("--only", nargs="+", default=[], help="words of the rows to run")
    parser.add_argument("--output", default="devices.json", help="the report to send")
    parser.add_argument("--quick", action="store_true", help="small models and few forms")
    parser.add_argument("--patience", type=float, default=900, help="seconds that a check may take")
    return parser


def _device(name: str) -> str:
    if not re.fullmatch(r"(CPU|GPU):\d+|TPU", name.upper()):
        raise argparse.ArgumentTypeError(f"a device is such as GPU:0, CPU:1 or TPU, not {name}")
    return name.upper()


def _command(options, program: Path) -> list[str]:
    command = [sys.executable, str(program)]
    for name in ("devices", "only"):
        values = getattr(options, name)
        command += [f"--{name}", *values] if values else []
    return [*command, "--quick"] if options.quick else command


def _print_row(console: Console, rows: list[dict]) -> None:
    """The newest row, below the name of its group if that is new."""
    row = rows[-1]
    if len(rows) == 1 or rows[-2]["group"] != row["group"]:
        console.print(f"\n[bold]{row['group']}[/]")
    status = f"[{COLORS[row['status']]}]{row['status']:<8}[/]"
    console.print(f"  {status}  {escape(row['name']):<52}  {escape(row['words'])}")


def summary_of(machine: dict, rows: list[dict]) -> str:
    """A few lines to paste into a message."""
    counts = Counter(row["status"] for row in rows)
    counted = ", ".join(f"{counts[status]} {status}" for status in COLORS)
    hardware = ", ".join(machine["hardware"]) or machine["processor"]
    versions = (
        f"keras_attn {machine['keras_attn']}, TensorFlow {machine['tensorflow']}, "
        f"Keras {machine['keras']}, Python {machine['python']}"
    )
    lines = [
        f"{len(machine['devices'])} x {machine['kind']}: {hardware}",
        versions,
        f"TensorFlow built for CUDA {machine['cuda']}, cuDNN {machine['cudnn']}; "
        f"driver {machine['driver'] or 'none'}",
        counted,
        *(
            f"{FAILED}: {row['group']}: {row['name']}: {row['words']}"
            for row in rows
            if row["status"] == FAILED
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
