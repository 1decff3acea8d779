// Where a table's values stand, and what is wrong with one, are part of what a table tells.
@_exported public import DomainTableFormat
