"""Care for a store: backup and restore, integrity check, repair, and its contents as records."""
