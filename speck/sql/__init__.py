"""SQL jobs: a query over a typed topic, from its text to a program that every engine runs with equal rows.

``parse`` and ``bind`` make a :class:`~speck.sql.program.Program` of a text and the contracts of topics;
``evaluate`` runs one without an engine.  Only ``parse`` imports sqlglot, and only when a file has a query.
"""
