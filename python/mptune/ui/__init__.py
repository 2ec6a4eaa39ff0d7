"""`mptune ui`: runs, campaigns at work and live connections as pages for this machine's browser.

`runs` and `live` read, `pages` writes HTML, `access` decides who may ask, `server` answers. Nothing is
written and nothing is measured; reports are those of `mptune.report`, connections those of `mptune.monitor`.
"""
