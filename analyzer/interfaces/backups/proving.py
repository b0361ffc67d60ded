"""Is a backup a store that bills could be made from? Its files and counts, and the ledger's invariants on the copy."""

from pathlib import Path

from analyzer.interfaces.doctor import examine
from analyzer.ledger.believed import believing
from analyzer.settings.settings import Settings
from collector.backup.backup_maker import backups
from collector.backup.manifest import NAME, Layout, open_backup
from collector.backup.restoring import Verdict, verify
from collector.errors import BackupError


def chosen_backup(folder: Path) -> Path:
    """Return the backup that is meant: the folder itself, or the newest in it.

    Raises:
        BackupError: there is none.
    """
    if (folder / NAME).is_file():
        return folder
    found = backups(folder)
    if not found:
        raise BackupError(f"there is no backup in {folder}; gpuledger admin backup --to {folder} makes one")
    return found[-1]


def proved(folder: Path, settings: Settings) -> Verdict:
    """Read all of a backup, open it, count it, and hold its ledger to the invariants.

    Raises:
        BackupError: it has no manifest that can be read.
    """
    verdict = verify(folder)
    if verdict.wrong or verdict.manifest.elsewhere:  # the samples that the invariants speak of are not here
        return verdict
    with open_backup(Layout.within(folder)) as store, believing(store) as session:
        checks = examine(session, settings)
    wrong = tuple(f"{check.name}: {check.off:,} {check.unit} off" for check in checks if not check.is_right)
    return Verdict(verdict.manifest, wrong)
