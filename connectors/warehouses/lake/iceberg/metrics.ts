import { parquetMetadata } from 'hyparquet';
import type { EncodedRows, TableSchema } from '../format.ts';
import { TableWriter } from '../parquet.ts';
import type { NewFile } from './manifests.ts';

/**
 * Bounds and nulls of the columns of a file with statistics, which are those of times: the files of the metadata outlive the rows, and
 * hold nothing by which people are known.
 */
export function metricsOf(bytes: Uint8Array): Pick<NewFile, 'bounds' | 'nulls'> {
  const { schema, row_groups } = parquetMetadata(bytes, { parsers: EXACT });
  const ids = new Map(schema.map(({ name, field_id }) => [name, field_id]));
  const bounds = new Map<number, readonly [bigint, bigint]>();
  const nulls = new Map<number, number>();
  for (const { columns } of row_groups)
    for (const { meta_data } of columns) {
      const id = ids.get(meta_data?.path_in_schema[0] ?? '');
      const { min_value: min, max_value: max, null_count = 0n } = meta_data?.statistics ?? {};
      if (id === undefined || meta_data?.statistics === undefined) continue;
      nulls.set(id, (nulls.get(id) ?? 0) + Number(null_count));
      if (typeof min !== 'bigint' || typeof max !== 'bigint') continue;
      let [least = min, most = max] = bounds.get(id) ?? [];
      if (min < least) least = min;
      if (max > most) most = max;
      bounds.set(id, [least, most]);
    }
  return { bounds, nulls };
}

/** The reader would make milliseconds of them. */
const EXACT = { timestampFromMicroseconds: (microseconds: bigint) => microseconds };

/** A file of the connection test. */
export function emptyFile(schema: TableSchema): EncodedRows {
  const writer = new TableWriter(schema);
  writer.add(new Map(), 1);
  return { bytes: writer.finish(), count: 1 };
}
