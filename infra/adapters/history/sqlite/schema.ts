/** `listed` holds one row for each listing an entry stands in, in the order of lists. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS entries (
    entry INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    facets TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (kind, workspace_id, id)
  );
  CREATE INDEX IF NOT EXISTS entries_by_age ON entries (at);
  CREATE TABLE IF NOT EXISTS listed (
    listing BLOB NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (listing, at DESC, id DESC)
  ) WITHOUT ROWID;
`;
