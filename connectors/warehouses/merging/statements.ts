import {
  type ColumnType,
  IDENTITY_MAP_TABLE,
  type ProfileRows,
  type TableRows,
  USERS_TABLE,
} from '@tributary/core';
import { keyOf, VERSIONS } from '../tables.ts';
import type { Dialect, Staging } from './dialect.ts';

/** What statements about staged rows need of an engine. */
type Sql = Pick<Dialect, 'quoted' | 'table' | 'cast'>;

/** Inserts staged rows. Of rows of events those whose id is there (`near`: where else that is looked for), or twice in the load, are left out. */
export function insertStaged(
  dialect: Sql,
  staging: Pick<Staging, 'rows'>,
  { table, columns }: Pick<TableRows, 'table' | 'columns'>,
  index: number,
  { which = '1 = 1', near = '' }: { readonly which?: string; readonly near?: string } = {},
): string {
  const names = [...columns.keys()].map(dialect.quoted).join(', ');
  const values = [...columns.values()].map((type, at) => dialect.cast(`s.c${at}`, type)).join(', ');
  const into = `insert into ${dialect.table(table)} (${names}) select ${values}`;
  const rows = staging.rows(index, columns.size);
  const key = table === USERS_TABLE ? undefined : keyOf(table, columns);
  if (key === undefined) return `${into} from ${rows} s where ${which}`;
  const id = `c${[...columns.keys()].indexOf(key)}`;
  return `${into} from (
      select r.*, row_number() over (partition by r.${id} order by r.n) as nth from ${rows} r where ${which}
    ) s where s.nth = 1 and not exists (
      select 1 from ${dialect.table(table)} known where known.${dialect.quoted(key)} = s.${id}${near})`;
}

/** The tables of profiles in a load. */
export const GONE_COLUMNS: ReadonlyMap<string, ColumnType> = new Map<string, ColumnType>([
  ['ucid', 'text'],
  ['version', 'bigint'],
  ['at', 'timestamp'],
  ['deleted', 'boolean'],
]);

export function goneRows(gone: ProfileRows['gone']): TableRows {
  return {
    table: VERSIONS,
    columns: GONE_COLUMNS,
    count: gone.length,
    rows: gone.map(({ ucid, version, at, isDeleted }) => [ucid, String(version), at, String(isDeleted)]),
  };
}

interface ProfileLoad {
  readonly users: TableRows;
  /** The index of the users in the staging; the identities and the profiles that are gone follow. */
  readonly index: number;
  /** ISO 8601 */
  readonly loadedAt: string;
}

/** What `ProfileRows` says, as statements that run in this order; the rows of users are inserted behind them, where `isNews` holds. */
export function profileStatements(
  dialect: Sql,
  { rows, news, closing }: Pick<Staging, 'rows' | 'news' | 'closing'>,
  { users, index, loadedAt }: ProfileLoad,
): { readonly statements: readonly string[]; readonly isNews: string } {
  const q = dialect.quoted;
  const [versions, usersTable, map] = [VERSIONS, USERS_TABLE, IDENTITY_MAP_TABLE].map(dialect.table);
  const identities = rows(index + 1, 4);
  const gone = rows(index + 2, GONE_COLUMNS.size);
  const columns = [...users.columns.keys()];
  const [ucid, version] = ['ucid', 'version'].map((name) => `c${columns.indexOf(name)}`);
  const isNews = (column: string) => `${column} in (select ucid from ${news})`;
  const ofUsers =
    users.count === 0
      ? ''
      : `union all select ${ucid}, ${dialect.cast(`${version}`, 'bigint')} from ${rows(index, columns.length)} u`;
  const changes = `(select ucid, max(version) as version from (
      select c0 as ucid, ${dialect.cast('c1', 'bigint')} as version from ${gone} g ${ofUsers}
    ) every_change group by ucid)`;
  const statements = [
    `insert into ${news} (ucid) select c.ucid from ${changes} c where not exists (
      select 1 from ${versions} v where v.${q('ucid')} = c.ucid and v.${q('version')} >= c.version)`,
    `delete from ${versions} where ${isNews(q('ucid'))}`,
    `insert into ${versions} (${q('ucid')}, ${q('version')})
      select c.ucid, c.version from ${changes} c where ${isNews('c.ucid')}`,
    `delete from ${usersTable} where ${isNews(q('ucid'))}`,
    `delete from ${map} where ${isNews(q('ucid'))}
      and ${q('ucid')} in (select c0 from ${gone} g where c3 = 'true')`,
    // A profile that is left without identities has no time of its change here.
    `insert into ${closing} (ucid, id_type, id_value, changed_at)
      select m.${q('ucid')}, m.${q('type')}, m.${q('value')}, coalesce(g.changed_at, h.changed_at, '${loadedAt}')
      from ${map} m
      left join (select c0 as ucid, max(c2) as changed_at from ${gone} x group by c0) g on g.ucid = m.${q('ucid')}
      left join (select c0 as ucid, min(c3) as changed_at from ${identities} x group by c0) h on h.ucid = m.${q('ucid')}
      left join (select distinct c0, c1, c2 from ${identities} x) held
        on held.c0 = m.${q('ucid')} and held.c1 = m.${q('type')} and held.c2 = m.${q('value')}
      where m.${q('valid_to')} is null and ${isNews(`m.${q('ucid')}`)} and held.c0 is null`,
    `update ${map} m set ${q('valid_to')} = ${dialect.cast('closing.changed_at', 'timestamp')}
      from ${closing} closing where m.${q('ucid')} = closing.ucid and m.${q('type')} = closing.id_type
        and m.${q('value')} = closing.id_value and m.${q('valid_to')} is null`,
    `insert into ${map} (${['ucid', 'type', 'value', 'valid_from'].map(q).join(', ')})
      select i.c0, i.c1, i.c2, ${dialect.cast('i.changed_at', 'timestamp')} from (
        select c0, c1, c2, min(c3) as changed_at from ${identities} x group by c0, c1, c2) i
      where ${isNews('i.c0')} and not exists (select 1 from ${map} m where m.${q('ucid')} = i.c0
        and m.${q('type')} = i.c1 and m.${q('value')} = i.c2 and m.${q('valid_to')} is null)`,
  ];
  return { statements, isNews: isNews(`s.${ucid}`) };
}
