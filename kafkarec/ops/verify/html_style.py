"""The CSS of the HTML report: light or dark by the system's setting, one colour per state."""

STYLE = """
:root { --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6470; --line: #dfe3e8; --good: #2f9e63;
  --damaged: #d6336c; --unreadable: #e8590c; --preallocated: #b9c2cc; --tail: #f2b430;
  --note: #5b6470; --anomaly: #a66a00; --code: #eef1f4; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1d2127; --ink: #e8eaed; --soft: #9aa4b0;
  --line: #323942; --good: #3fb57a; --damaged: #ff5c93; --unreadable: #ff8a4c; --preallocated: #4a535e; --tail: #ffc94d;
  --note: #9aa4b0; --anomaly: #ffc94d; --code: #282e36; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 64px; }
header, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 22px;
  margin: 0 0 16px; }
header { border-left: 8px solid var(--good); }
header.damaged { border-left-color: var(--damaged); }
header.error { border-left-color: var(--unreadable); }
header.anomaly { border-left-color: var(--tail); }
h1 { font-size: 1.45rem; line-height: 1.3; margin: 2px 0 8px; }
h2 { font-size: 1.1rem; margin: 0 0 8px; }
h3 { font: 600 .9rem ui-monospace, monospace; margin: 18px 0 6px; }
h3 small { font: .82rem system-ui, sans-serif; color: var(--soft); margin-left: 8px; }
p { margin: 0 0 6px; overflow-wrap: anywhere; }
.kicker { color: var(--soft); font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; margin: 0; }
.path { color: var(--soft); font: .82rem ui-monospace, monospace; }
pre { margin: 0; padding: 12px 14px; background: var(--code); border-radius: 6px; overflow-x: auto;
  font: .86rem/1.7 ui-monospace, monospace; }
code { background: var(--code); border-radius: 4px; padding: 1px 5px; font: .82em ui-monospace, monospace; }
.legend { color: var(--soft); font-size: .86rem; margin: 4px 4px 16px; }
.legend span { margin-right: 16px; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
i.good { background: var(--good); } i.damaged { background: var(--damaged); }
i.unreadable { background: var(--unreadable); } i.preallocated { background: var(--preallocated); }
i.tail { background: var(--tail); }
svg { display: block; width: 100%; height: 22px; border-radius: 4px; background: var(--line); }
td.map { width: 30%; min-width: 160px; } td.map svg { height: 14px; margin-top: 4px; }
rect.good { fill: var(--good); } rect.damaged { fill: var(--damaged); } rect.unreadable { fill: var(--unreadable); }
rect.preallocated { fill: var(--preallocated); } rect.tail { fill: var(--tail); }
rect:hover { opacity: .75; }
.none { color: var(--soft); }
.wide { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: anywhere; }
td b, td code { white-space: nowrap; }
.scale { display: flex; justify-content: space-between; color: var(--soft); font-size: .75rem; margin: 2px 0 0; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
b.ok { color: var(--good); } b.damaged { color: var(--damaged); } b.error { color: var(--unreadable); }
b.anomaly { color: var(--anomaly); } b.note { color: var(--note); }
h2 b { font-size: .8rem; margin-left: 8px; }
@media print { body { background: #fff; } section { break-inside: avoid-page; } }
"""
