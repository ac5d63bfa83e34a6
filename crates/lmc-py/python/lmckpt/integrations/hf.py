"""Checkpoints of the transformers Trainer in a store.

``Trainer(callbacks=[StoreCallback("store", run="r")])`` saves each ``checkpoint-N`` directory once
the trainer has written it; ``restore_checkpoint`` brings one back, to resume from.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Unpack

from transformers import TrainerCallback

from .._documented import documented_as
from .._lmckpt import Snapshot
from ..errors import InvalidError, NotFoundError
from ..files import Path
from ..store.native import native_of
from ..store.options import CodingOptions, takes
from ..store.store import Store, as_store

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


@documented_as("lmckpt.hf")
class StoreCallback(TrainerCallback):
    """Saves the directory of each checkpoint, on the main process."""

    @takes(CodingOptions)
    def __init__(
        self,
        store: Store | Path,
        run: str = "main",
        *,
        background: bool = False,
        delete: bool = False,
        tags: Sequence[str] = (),
        **options: Unpack[CodingOptions],
    ) -> None:
        """``store`` is a Store, or the path or URL of one, which is created if it does not exist.

        With ``background``, training continues meanwhile; the next checkpoint waits for the
        previous one, and an error is raised at the next step, save or end. With ``delete``, the
        directory is deleted once it is safe in the store.
        """
        self._store = as_store(store, create=True)
        self._run, self._tags = run, tags
        self._background, self._delete = background, delete
        self._options = options
        self._saving: Future[Snapshot] | None = None

    @property
    def store(self) -> Store:
        """Where the checkpoints go."""
        return self._store

    def wait(self) -> None:
        """Waits for the save in the background, if there is one, and raises its error."""
        future, self._saving = self._saving, None
        if future is not None:
            future.result()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Refuses what would lose checkpoints that the trainer needs."""
        if self._delete and args.load_best_model_at_end:
            raise InvalidError("load_best_model_at_end needs the directories: set delete=False")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Raises what went wrong in the background."""
        # The trainer deletes old checkpoints when it writes one: none may be read then.
        is_done = self._saving is not None and self._saving.done()
        if control.should_save or is_done:
            self.wait()

    on_epoch_end = on_step_end

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Waits where the trainer may decide to save now."""
        if control.should_save or args.save_strategy == "best":
            self.wait()

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Saves the checkpoint that was just written."""
        _barrier()
        if not state.is_world_process_zero:
            return
        self.wait()
        folder = os.path.join(args.output_dir or "", f"checkpoint-{state.global_step}")
        if not os.path.isdir(folder):
            raise NotFoundError(
                f"{folder} does not exist; hyperparameter searches are not supported"
            )
        meta = {"epoch": "" if state.epoch is None else state.epoch}
        if not self._background:
            self._save(folder, state.global_step, meta)
            return
        background, step = native_of(self._store).background, state.global_step
        self._saving = background.start(lambda: self._save(folder, step, meta))
        # At the end, the trainer may delete checkpoints before it says that training has ended.
        if step >= state.max_steps or control.should_training_stop:
            self.wait()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Waits for the last save."""
        self.wait()

    def _save(self, folder: str, step: int, meta: dict[str, Any]) -> Snapshot:
        saved = self._store.save(
            folder, run=self._run, step=step, tags=self._tags, meta=meta, **self._options
        )
        if self._delete:
            shutil.rmtree(folder)
        return saved


@documented_as("lmckpt.hf")
def restore_checkpoint(
    store: Store | Path,
    run: str,
    target: Path,
    *,
    step: int | None = None,
    missing_ok: bool = False,
    overwrite: bool = False,
) -> str | None:
    """Restores the newest checkpoint of a run, or that of a step, to ``target/checkpoint-N``.

    Returns that directory, for ``trainer.train(resume_from_checkpoint=...)``; it appears whole or
    not at all. One that already exists is used as it is, unless ``overwrite`` is set. With
    ``missing_ok``, nothing is returned if the run has no checkpoint yet.
    """
    try:
        store = store if isinstance(store, Store) else Store(store)
        snapshot = store.get(f"{run}@{'latest' if step is None else step}")
    except FileNotFoundError:
        if missing_ok:
            return None
        raise
    name = f"checkpoint-{snapshot.step}"
    folder = os.path.join(os.fspath(target), name)
    if os.path.isdir(folder) and not overwrite:
        return folder
    os.makedirs(target, exist_ok=True)
    # Names that nobody else can have taken.
    hidden = os.path.join(os.fspath(target), f".{name}.{secrets.token_hex(8)}")
    part, old = f"{hidden}.part", f"{hidden}.old"
    try:
        store.restore(snapshot, part)
        if os.path.lexists(folder):
            os.rename(folder, old)
        try:
            os.rename(part, folder)
        except BaseException:
            # Somebody may have made it again; then the old one stays where it is.
            if os.path.lexists(old) and not os.path.lexists(folder):
                os.rename(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _barrier() -> None:
    """Waits until every process has written its files of the checkpoint."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
