"""An import-linter contract with an allow list: what is not named in it is forbidden, new modules included."""

from __future__ import annotations

from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """Some packages may import only these modules of a package, and what is below them."""

    source_modules = fields.SetField(subfield=fields.StringField())
    package = fields.StringField()
    allowed_modules = fields.SetField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        """Find direct imports of modules that are not on the list."""
        wrong = sorted(
            (importer, imported)
            for importer in graph.modules
            if _within(importer, self.source_modules)
            for imported in graph.find_modules_directly_imported_by(importer)
            if _within(imported, {self.package}) and not _within(imported, self.allowed_modules)
        )
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each wrong import."""
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} must not import {imported}.")


def _within(module: str, packages: Any) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
