"""Audit a release without preparing it: `launch prep recipe=... check=true`.

    audit.json        counts beside the paper's, letters, and how many findings each check has
    findings.jsonl    every finding: severity, check, message, id, file, line

All of `data.subsets` and `data.tasks` is looked at, whatever categories and limits a recipe sets. Every
call looks anew, so the directory never counts as finished.
"""

from data_prep.atomic import replacing, write_json
from data_prep.cvsbench.audit import CHECKS, read
from data_prep.cvsbench.audit_pictures import compare
from data_prep.cvsbench.audit_table import summary, table
from data_prep.data_root import DataRoot
from data_prep.findings import Findings
from data_prep.fingerprints import fingerprint_all
from recipes.progress import StepProgress
from recipes.release import release_folder
from recipes.run_dir import RunDir


def run(run: RunDir) -> int:
    """Write the audit into the run directory and print its table.

    Returns:
        exit status: 0 without errors (there may be warnings), 1 with errors.

    Raises:
        UserError: `data.root` is no folder, or a process that decodes pictures was killed.
    """
    if run.config.data.benchmark == "monosr":
        from recipes import prep_monosr

        return prep_monosr.audit(run)
    config = run.config
    root = DataRoot(release_folder(run.path, config.data))
    for left in run.path.glob(".*.part"):
        left.unlink()  # of an attempt that was killed
    with replacing(run.path / "findings.jsonl") as temporary, open(temporary, "w", encoding="utf-8") as out:
        findings = Findings(CHECKS, out)
        contents = read(root, config.data.subsets, config.data.tasks, findings.add)
        with StepProgress("pictures", len(contents.pictures)) as progress:
            prints = fingerprint_all(root.path, list(contents.pictures), progress.update)
        compare(contents, prints, findings.add)
    write_json(
        run.path / "audit.json",
        {"benchmark": config.data.benchmark, "root": str(root.path), **summary(contents, findings)},
    )
    print(f"\nrelease at {root.path}\n")
    for line in table(contents, findings):
        print(line)
    print(f"every finding: {run.path / 'findings.jsonl'}; numbers: {run.path / 'audit.json'}", flush=True)
    return 1 if findings.count("error") else 0
