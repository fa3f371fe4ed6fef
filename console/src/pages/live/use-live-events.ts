import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { useSessionStatus } from '../../session/session.ts';
import type { Environment } from '../../shared/event-fields.ts';
import { LiveRows, type LiveSnapshot, type RowFilter } from './live-rows.ts';
import { followEvents, type StreamStatus } from './live-stream.ts';

/** Minimum time between two updates of the list, ms: faster ones cannot be read. */
const MIN_FLUSH_MS = 100;
/** Interval at which the rate is updated even without events, ms. */
const TICK_MS = 1_000;

interface Options {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly filter: RowFilter;
  /** The rows stay the same; new events wait. */
  readonly isHeld: boolean;
}

interface LiveEvents {
  readonly rows: LiveRows;
  readonly snapshot: LiveSnapshot;
  readonly status: StreamStatus;
  /** Connects again after a refusal. */
  readonly reconnect: () => void;
  readonly clear: () => void;
}

/** The live stream of a workspace as rows, which change at most once a frame. */
export function useLiveEvents({ workspaceId, environment, filter, isHeld }: Options): LiveEvents {
  const source = useMemo(
    () => new FlushedRows(`${workspaceId} ${environment ?? ''}`),
    [workspaceId, environment],
  );
  const snapshot = useSyncExternalStore(source.subscribe, source.snapshot);
  const [status, setStatus] = useState<StreamStatus>({ state: 'connecting' });
  const [attempt, setAttempt] = useState(0);
  const lastEventId = useRef<{ readonly of: FlushedRows; readonly id: string }>(undefined);
  const isSignedIn = useSessionStatus() === 'signed-in';

  // biome-ignore lint/correctness/useExhaustiveDependencies: `attempt` is a request to connect again
  useEffect(() => {
    if (!isSignedIn) return;
    const stop = new AbortController();
    void followEvents({
      workspaceId,
      environment,
      after: lastEventId.current?.of === source ? lastEventId.current.id : undefined,
      signal: stop.signal,
      onItem: (item) => source.add(item),
      onStatus: setStatus,
      onLastEventId: (id) => {
        lastEventId.current = { of: source, id };
      },
    });
    const tick = setInterval(() => source.flushSoon(), TICK_MS);
    return () => {
      clearInterval(tick);
      stop.abort();
    };
  }, [workspaceId, environment, source, isSignedIn, attempt]);

  useEffect(() => source.hold(isHeld), [source, isHeld]);
  const { type, name, outcome, q } = filter;
  useEffect(
    () =>
      source.filter({
        ...(type && { type }),
        ...(name && { name }),
        ...(outcome && { outcome }),
        ...(q && { q }),
      }),
    [source, type, name, outcome, q],
  );
  return {
    rows: source.rows,
    snapshot,
    status,
    reconnect: useCallback(() => setAttempt((count) => count + 1), []),
    clear: useCallback(() => source.clear(), [source]),
  };
}

/** Rows that are shown at the next frame, and at most every `MIN_FLUSH_MS`. */
class FlushedRows {
  readonly rows = new LiveRows();
  /** Workspace and environment of the rows. */
  readonly of: string;
  #listener: (() => void) | undefined;
  #isScheduled = false;
  #flushedAt = 0;

  constructor(of: string) {
    this.of = of;
  }

  readonly snapshot = () => this.rows.snapshot;

  readonly subscribe = (listener: () => void) => {
    this.#listener = listener;
    return () => {
      this.#listener = undefined;
    };
  };

  add(item: Parameters<LiveRows['add']>[0]): void {
    this.rows.add(item);
    this.flushSoon();
  }

  hold(isHeld: boolean): void {
    this.rows.hold(isHeld);
    this.flushSoon();
  }

  filter(filter: RowFilter): void {
    this.rows.filter(filter);
    this.#listener?.();
  }

  clear(): void {
    this.rows.clear();
    this.#listener?.();
  }

  flushSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const waitMs = Math.max(0, this.#flushedAt + MIN_FLUSH_MS - performance.now());
    // A hidden page gets no frames: new rows wait, and `LiveRows` bounds them.
    setTimeout(() => requestAnimationFrame(() => this.#flush()), waitMs);
  }

  #flush(): void {
    this.#isScheduled = false;
    this.#flushedAt = performance.now();
    if (this.rows.flush()) this.#listener?.();
  }
}
