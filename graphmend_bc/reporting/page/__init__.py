"""The report as one HTML page that needs no other file.

Its templates need jinja2. Its pictures need drawsvg, and those of control flow fast-sugiyama; a
page without them says so. All of them are in the extra `cli`.
"""

from graphmend_bc.reporting.page.document import page_of as page_of
from graphmend_bc.reporting.page.document import write_page as write_page
from graphmend_bc.reporting.page.opening import Opening as Opening
from graphmend_bc.reporting.page.rows import Row as Row
from graphmend_bc.reporting.page.rows import SourceLine as SourceLine
from graphmend_bc.reporting.page.rows import excerpt as excerpt
from graphmend_bc.reporting.page.rows import rows_of as rows_of
