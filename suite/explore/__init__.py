"""`suite explore`: a local page on which a model shows what it does with a text, and the server behind it.

`app` is the server, `guard` keeps other sites and oversized bodies out, `work` computes one thing at a time; the other
modules answer the page's questions, one function a question. The page itself is in `static/`.
"""
