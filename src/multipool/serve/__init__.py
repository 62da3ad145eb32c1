"""Adapters behind HTTP: one a stream, in order, isolated, saved, and brought back exactly.

From the outside in: ``server`` runs uvicorn, ``app`` holds the routes (``infer``, ``predict``,
``api``) behind the ``gate``; ``protocol``, ``tensors``, ``pictures`` and ``body`` read requests;
``service`` keeps each stream's order and ``batching`` joins what waits; ``keeper`` decides what is
in memory and when it is saved; a ``backend`` computes (``local``: threads of this process), with a
``stream`` for each adapter and a ``store`` for their files. Needs the extra ``multipool[serve]``.
"""
