"""The CSS of the HTML report's maps and states, added to that of `kafkarec.support.html_page`: one colour per state."""

STYLE = """
:root { --damaged: #d6336c; --unreadable: #e8590c; --preallocated: #b9c2cc; --tail: #f2b430; --note: #5b6470;
  --anomaly: #a66a00; }
@media (prefers-color-scheme: dark) { :root { --damaged: #ff5c93; --unreadable: #ff8a4c; --preallocated: #4a535e;
  --tail: #ffc94d; --note: #9aa4b0; --anomaly: #ffc94d; } }
header.damaged { border-left-color: var(--damaged); }
header.error { border-left-color: var(--unreadable); }
header.anomaly { border-left-color: var(--tail); }
i.good { background: var(--good); } i.damaged { background: var(--damaged); }
i.unreadable { background: var(--unreadable); } i.preallocated { background: var(--preallocated); }
i.tail { background: var(--tail); }
svg { height: 22px; border-radius: 4px; background: var(--line); }
td.map { width: 30%; min-width: 160px; } td.map svg { height: 14px; margin-top: 4px; }
rect.good { fill: var(--good); } rect.damaged { fill: var(--damaged); } rect.unreadable { fill: var(--unreadable); }
rect.preallocated { fill: var(--preallocated); } rect.tail { fill: var(--tail); }
rect:hover { opacity: .75; }
.scale { display: flex; justify-content: space-between; color: var(--soft); font-size: .75rem; margin: 2px 0 0; }
b.ok { color: var(--good); } b.damaged { color: var(--damaged); } b.error { color: var(--unreadable); }
b.anomaly { color: var(--anomaly); } b.note { color: var(--note); }
h2 b { font-size: .8rem; margin-left: 8px; }
"""
