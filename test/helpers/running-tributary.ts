import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, eventually } from './client.ts';

/** A Tributary for one test: the real commands in separate processes. */
export interface Tributary {
  readonly url: string;
  /** The admin port of the process that serves `url`. */
  readonly adminUrl: string;
  readonly folder: string;
  /** Of its processes. */
  readonly environment: Readonly<Record<string, string>>;
  /** Of the process that serves `url`. */
  readonly pid: number;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
  /** Signs a browser in, once. Absent where the processes of a cluster run. */
  readonly consoleLink?: string;
  /** Calls as the owner of the workspace, in it. */
  readonly owner: Client;
  /** Calls with the write key. */
  readonly producer: Client;
  /** All its log output. */
  log(): string;
  /** The metrics of all its processes, collected after the call. */
  metrics(): Promise<string>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves to its exit code. */
  stop(): Promise<number | null>;
  /** Stops it and removes its folder and its data elsewhere. */
  remove(): Promise<void>;
}

const POLL_MS = 50;
/** A server that works through a flood of events on a busy machine answers late. */
const WITHIN_MS = 60_000;

/**
 * The metrics of a process, all of them collected after this call. An exposition is shared for a second, and
 * one from before an event was sent would show nothing in flight.
 */
export async function scrape(adminUrl: string): Promise<string> {
  const from = Date.now();
  for (;;) {
    const answer = await fetch(`${adminUrl}/metrics`, { signal: AbortSignal.timeout(WITHIN_MS) });
    const text = await answer.text();
    const collected = [...text.matchAll(/^tributary_metrics_collected_timestamp_seconds\{.*\} (\S+)$/gm)];
    if (collected.length > 0 && collected.every(([, seconds]) => Number(seconds) * 1_000 >= from))
      return text;
    if (Date.now() - from > WITHIN_MS) throw new Error(`no fresh metrics at ${adminUrl}: ${answer.status}`);
    await sleep(POLL_MS);
  }
}

/**
 * The lag of each partition of each stage, by the labels of the metric. `metrics` is the concatenated
 * `/metrics` output of the processes that run the stages. The lowest value for a partition is right: the
 * process that owns it does not count records behind its last event, such as transaction markers, and the
 * others do.
 */
function leastLags(metrics: string): ReadonlyMap<string, number> {
  const lags = new Map<string, number>();
  for (const [, labels = '', lag] of metrics.matchAll(/^tributary_stage_lag_records\{(.*)\} (\d+)$/gm))
    lags.set(labels, Math.min(Number(lag), lags.get(labels) ?? Number.POSITIVE_INFINITY));
  return lags;
}

/**
 * Describes the partitions with records that their stage has not processed. Also lists lags that are unknown
 * or older than `since` (epoch ms): a metrics report does not wait for a log that answers slowly.
 */
export function waiting(metrics: string, since: number): readonly string[] {
  const known = [...metrics.matchAll(/^tributary_stage_lag_collected_timestamp_seconds(?:\{\})? (\S+)$/gm)];
  if (known.some(([, seconds]) => Number(seconds) * 1_000 < since)) return ['the lag was last known before'];
  const lags = [...leastLags(metrics)];
  if (lags.length === 0 || known.length === 0) return ['no stage says its lag'];
  return lags.filter(([, lag]) => lag > 0).map(([labels, lag]) => `${lag} before ${labels}`);
}

/** The result of `waiting` for metrics collected from now on. */
export async function waitingNow(metrics: () => Promise<string>): Promise<readonly string[]> {
  const since = Date.now();
  return waiting(await metrics(), since);
}

/** Resolves once no stage has a lag; fails with the remaining ones. */
export async function drained(server: { metrics(): Promise<string> }, timeoutMs?: number): Promise<void> {
  await eventually(
    () => waitingNow(() => server.metrics()),
    (left) => left.length === 0,
    timeoutMs,
  );
}
