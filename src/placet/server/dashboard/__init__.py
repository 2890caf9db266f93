"""The dashboard: pages that look at a world through this API, with its reader's own token.

A page holds no data, so it is public; its data comes from the same API as any client's. It loads
nothing from elsewhere, and text of agents never becomes markup: it is inserted as text, and the
content security policy forbids inline scripts and evaluated code.

    pages.py: the pages, made of one frame. routes.py: their routes, on each kind of server.
"""
