import type { ProfileWrite } from './profile-store.ts';

/** Clocks of two processes differ, and a write takes its time after it was looked at. */
const MARGIN_MS = 60_000;

/**
 * Whether nobody knows any more if the person whom the data is about was deleted after it was received. It is not
 * written: what a log keeps beyond its retention, or what is sent through it once more, brings nobody back.
 */
export function isTooOld({ receivedAt }: ProfileWrite, now: number, retentionMs: number): boolean {
  return receivedAt !== undefined && receivedAt < now - retentionMs;
}

/** Deletions of before this time may be forgotten, epoch ms: whatever they decide about is too old. */
export function forgetDeletionsBefore(now: number, retentionMs: number): number {
  return now - retentionMs - MARGIN_MS;
}
