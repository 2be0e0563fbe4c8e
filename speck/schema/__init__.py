"""Compositions, jobs and the site inventory, from text to checked values; all faults are reported at once.

==================  ==================================================================================
``compositions``    compositions and jobs: the entry points, with ``inventory``
``inventory``       the site inventory
``schemas``         the fields of all documents, from which the OpenAPI description is made
``fields``          kinds of fields, with ``address`` and ``secret_detection`` for their values
``validation``      plain data to fields that are valid by themselves
``for_each``        one job for each of several sites
``resolver``        the jobs of a document: each by ``job_resolution``, with ``places`` and ``code``
``logins``          faults of logins, and warnings about their secrets
``lint``            warnings about a composition as a whole
``placement``       the block of that name; faults and warnings of jobs and topics that SpecK places
``fault_report``    how faults are worded and collected
``yaml``            YAML and JSON text, with lines and variables
==================  ==================================================================================
"""
