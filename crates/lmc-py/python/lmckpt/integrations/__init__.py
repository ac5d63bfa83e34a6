"""lmckpt in other libraries, one module for each. How to write one:

1. ``integrations/NAME.py`` has the classes that the library asks for, and is the only module that
   imports it. Users import ``lmckpt.NAME``: a module of a few lines that re-exports what is public
   and lists it in ``__all__``. The code decorates that with ``documented_as("lmckpt.NAME")``
   (``_documented.py``), so that ``help()`` and pickles name the documented place. The two modules
   have the same name, except that ``fsspec.py`` is imported as ``lmckpt.fs``.

2. Take ``store: Store | Path`` and turn it into a store with ``as_store(store, create=True)``
   (``store/store.py``). Take the options of a save as ``**options: Unpack[CodingOptions]``, or
   ``SnapshotOptions`` or ``SaveOptions`` if users may choose tags, parent or step too. Decorate
   the function with ``takes`` of the same class (``store/options.py``), and pass the options on to
   ``Store.save``.

3. ``Store.save_async(state, run=..., step=...)`` at a step and ``Store.wait()`` at the end are all
   that a callback needs. The state is copied first, and an error is raised by the next of these
   calls. What goes beyond the public methods is in ``store/native.py``, by ``native_of(store)``:

   * ``background.start(save)`` calls a function in a thread, for files and directories that stay as
     they are meanwhile; ``background.save(flatten(state), save)`` copies a state first. One save is
     done at a time; an error is logged, kept in the future, and raised by the next save if nobody
     has asked for it. Start no threads of your own.
   * ``contents(snapshot)`` lists and opens the files of one snapshot.
   * ``shown`` is the URL without its secrets, for errors and whatever is written.

4. With several processes, all of them must have written their files before one saves them
   (``_barrier`` in ``hf.py``). States whose parts are saved by each process go through
   ``lmckpt.dcp``.

5. Nothing is pickled into a store, and nothing that is read is unpickled. Errors are those of
   ``lmckpt.errors``.

Beside ``integrations/NAME.py`` and its re-export ``NAME.py``: ``tests/test_NAME.py`` and a row in
``tests/test_imports.py``; in ``pyproject.toml`` the library in the extra ``test``, and in the
overrides of mypy if it has no types; ``docs/python/NAME.md`` and a row under Frameworks in
``docs/python.md``; its name in ``ARCHITECTURE.md`` where the Python code is listed; a line in
``CHANGELOG.md``. ``hf.py`` is the shortest example of a save of directories, ``lightning.py`` of
states, ``fsspec.py`` of reading. The tests run what ``make test-package`` has installed.
"""
