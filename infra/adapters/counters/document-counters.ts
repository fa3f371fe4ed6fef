import {
  ALL_SCOPES,
  bytesIn,
  type CountDocument,
  type CountedPartition,
  type Counters,
  type CountsBatch,
  type DocumentRange,
  type FunnelQuery,
  type FunnelRow,
  type FunnelSampleQuery,
  type HourlyRuns,
  type KeyUse,
  type RunQuery,
  type RunTally,
  readFunnel,
  readFunnelSamples,
  readRuns,
  readVolume,
  runsOf,
  type ScopeBytes,
  type VolumeQuery,
  type VolumeRow,
} from '@tributary/core';

/** The part of `Counters` that is the same for all stores of documents (see `core/funnel/documents.ts`). */
export abstract class DocumentCounters implements Counters {
  abstract applied(partition: CountedPartition): Promise<number>;
  abstract apply(batch: CountsBatch): Promise<void>;
  abstract lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  abstract touch(use: KeyUse): Promise<void>;
  abstract close(): Promise<void>;
  protected abstract documents(range: DocumentRange): Promise<readonly CountDocument[]>;
  /** Adds to documents that are numbers. */
  protected abstract add(documents: readonly CountDocument[]): Promise<void>;

  funnel(query: FunnelQuery): Promise<readonly FunnelRow[]> {
    return readFunnel(query, (range) => this.documents(range));
  }

  samples(query: FunnelSampleQuery): Promise<readonly string[]> {
    return readFunnelSamples(query, (range) => this.documents(range));
  }

  volume(query: VolumeQuery): Promise<readonly VolumeRow[]> {
    return readVolume(query, (range) => this.documents(range));
  }

  runs(query: RunQuery): Promise<readonly HourlyRuns[]> {
    return readRuns(query, (range) => this.documents(range));
  }

  async bytes(interval: 'hour' | 'day', start: number): Promise<readonly ScopeBytes[]> {
    const kind = `bytes_${interval}` as const;
    const range = { workspaceId: ALL_SCOPES, kind, from: start, to: start, fields: undefined };
    return (await this.documents(range)).map(bytesIn);
  }

  addRuns(tallies: readonly RunTally[]): Promise<void> {
    return this.add(
      tallies.flatMap(({ workspaceId, transformationId, hour: start, counts }) =>
        Object.entries(counts).map(([field, count]) => ({
          workspaceId: runsOf(workspaceId, transformationId),
          kind: 'runs' as const,
          start,
          field,
          value: String(count),
        })),
      ),
    );
  }
}
