"""The tables, pictures and page of the experiment, from the results of one machine or several."""

import json
from pathlib import Path

HEADINGS = ("nodes", "masters", "ps", "workers", "max time", "average time")
KINDS = {
    "compute": "Compute only: the chief's own training time, seconds",
    "submit_to_done": "Submit to done: from the trial's submission to its end, waiting included, seconds",
}


def machine_name(results):
    found = results["machine"]
    return "mnist-grid-kubernetes" if found.get("kubernetes") else f"mnist-grid-{found['cores']}-cores"


def machine_text(results):
    found = results["machine"]
    nodes = f"each logical node has {found['node_cores']} cores" if found["node_cores"] else "logical nodes share them"
    if found.get("kubernetes"):
        nodes = "the nodes of a Kubernetes cluster share them"
    return (
        f"{found['cores']} cores ({found['architecture']}), {found['memory_gib']} GiB of memory; {nodes}; "
        f"Python {found['python']}; {counted(results['epochs'], 'epoch')}"
    )


def counted(number, thing):
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def time_rows(results, kind):
    rows = []
    for grid in results["grids"]:
        times = [trial[kind] for trial in grid["trials"] if trial["phase"] == "COMPLETED"]
        figures = (f"{max(times):.1f}", f"{sum(times) / len(times):.1f}") if times else ("-", "-")
        rows.append((str(grid["nodes"]), "1", "1", str(grid["workers"]), *figures))
    return rows


def accuracy_rows(results):
    """One row for each pair of values, one column for each grid."""
    pairs = [(trial["layers"], trial["rate"]) for trial in results["grids"][0]["trials"]]
    found = [
        {(trial["layers"], trial["rate"]): trial["accuracy"] for trial in grid["trials"]} for grid in results["grids"]
    ]
    return [(*pair, *(written(grid.get(pair)) for grid in found)) for pair in pairs]


def accuracy_headings(results):
    grids = (grid_name(grid) for grid in results["grids"])
    return ("layers", "rate", *grids)


def grid_name(grid):
    return f"{counted(grid['nodes'], 'node')}, {counted(grid['workers'], 'worker')}"


def single_rows(results):
    return [
        (
            str(single["workers"]),
            f"{single['start_up']:.2f}",
            written(single["compute"], "{:.1f}"),
            f"{single['submit_to_done']:.1f}",
            written(single["accuracy"]),
        )
        for single in results["singles"]
    ]


SINGLE_HEADINGS = ("workers", "start-up", "compute", "submit to done", "accuracy")


def written(value, form="{:.4f}"):
    return "-" if value is None else form.format(value)


def tables(results):
    """Every table with its title."""
    for kind, title in KINDS.items():
        yield title, HEADINGS, time_rows(results, kind)
    yield "Final accuracy on the test data", accuracy_headings(results), accuracy_rows(results)
    if results["singles"]:
        yield "One job alone on one node, seconds", SINGLE_HEADINGS, single_rows(results)


def print_tables(results):
    print(f"\nMachine: {machine_text(results)}")
    for title, headings, rows in tables(results):
        widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
        print(f"\n{title}")
        for row in [headings, *rows]:
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def markdown(results):
    where = "Kubernetes, " if results["machine"].get("kubernetes") else ""
    parts = [f"## {where}{results['machine']['cores']} cores", f"Machine: {machine_text(results)}."]
    for title, headings, rows in tables(results):
        lines = [headings, ["---:"] * len(headings), *rows]
        parts.append(f"### {title}")
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, f"![Accuracy over time]({machine_name(results)}.png)"])


def write_report(folder):
    """Write the page over every machine whose results lie in the folder."""
    found = sorted(
        (json.loads(file.read_text()) for file in Path(folder).glob("mnist-grid-*.json")),
        key=lambda results: (results["machine"]["cores"], machine_name(results)),
    )
    introduction = (Path(__file__).parent / "experiment.md").read_text().rstrip()
    page = Path(folder) / "mnist-grid.md"
    page.write_text("\n\n".join([introduction, *(markdown(results) for results in found)]) + "\n")
    print(f"\nreport: {page}")


def write_pictures(results, path):
    """Accuracy over time of every trial, one frame for each grid."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no pictures: matplotlib is not installed (pip install 'gangline[plot]')")
        return
    columns = sorted({grid["workers"] for grid in results["grids"]})
    lines = sorted({grid["nodes"] for grid in results["grids"]})
    figure = Figure(figsize=(5 * len(columns), 3.2 * len(lines)), layout="constrained")
    frames = figure.subplots(len(lines), len(columns), squeeze=False, sharex=True, sharey=True)
    for grid in results["grids"]:
        axes = frames[lines.index(grid["nodes"])][columns.index(grid["workers"])]
        for trial in grid["trials"]:
            if trial["curve"]:
                axes.plot(*zip(*trial["curve"], strict=True), marker=".", label=f"{trial['layers']} / {trial['rate']}")
        axes.set(title=grid_name(grid), xlabel="seconds", ylabel="accuracy")
        axes.grid(visible=True, alpha=0.3)
    frames[0][-1].legend(title="layers / rate", fontsize="x-small")
    figure.savefig(path, dpi=100)
    print(f"picture: {path}")
