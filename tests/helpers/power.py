"A power failure, simulated: what was not synced is gone. A file counts from its last sync, a name from its folder's."

import os, shutil
from pathlib import Path


class Power:
    "Watches the syncs of a process below a folder; `fail` leaves there what a disk would have."

    def __init__(self, root: Path, monkeypatch):
        self.root, self.files, self.names = root, {}, {}
        self.sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.synced)
        self.folder(root)

    def folder(self, path: Path):
        self.names[os.stat(path).st_ino] = {
            p.name: (p.is_dir(), p.stat().st_ino) for p in path.iterdir()
        }

    def synced(self, fd: int):
        self.sync(fd)
        path, node = Path(os.readlink(f"/proc/self/fd/{fd}")), os.fstat(fd).st_ino
        if path.is_dir():
            self.folder(path)
        else:
            self.files[node] = path.read_bytes()

    def fail(self):
        files, names, node = self.files, self.names, os.stat(self.root).st_ino
        for p in self.root.iterdir():
            shutil.rmtree(p) if p.is_dir() else p.unlink()
        self.files, self.names = {}, {}  # what is restored gets other numbers
        self.restore(self.root, node, files, names)

    def restore(self, path: Path, node: int, files: dict, names: dict):
        for name, (is_folder, inside) in names.get(node, {}).items():
            if is_folder:
                (path / name).mkdir()
                self.restore(path / name, inside, files, names)
            else:
                (path / name).write_bytes(files.get(inside, b""))
                self.files[os.stat(path / name).st_ino] = files.get(inside, b"")
        self.folder(path)
