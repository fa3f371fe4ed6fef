import type { Dice } from './dice.ts';

export const GATEWAYS = ['gateway-1', 'gateway-2'] as const;
export const PROCESSORS = ['processor-1', 'processor-2', 'processor-3'] as const;

/** One fault, triggered once this share of the events is confirmed. */
export type Trouble = { readonly at: number } & (
  | { readonly kind: 'kill'; readonly process: string }
  | { readonly kind: 'pause'; readonly process: string; readonly forMs: number }
  /** One more processor joins, and leaves cleanly while events flow. */
  | { readonly kind: 'join' }
  | { readonly kind: 'leave' }
  | { readonly kind: 'restart'; readonly engine: 'kafka' | 'redis'; readonly how: 'kill' | 'stop' }
);

export interface ScheduleOptions {
  /** The number of kills of each gateway and processor. */
  readonly kills: number;
  readonly pauses: number;
  readonly joins: number;
  /** The restarts of Kafka, in this order; Redis is killed once. */
  readonly kafkaRestarts: readonly ('kill' | 'stop')[];
  readonly sessionTimeoutMs: number;
}

/**
 * Draws the list of faults to inject, in order. Faults may fall anywhere and overlap; the last one is a kill
 * during the drain.
 */
export function drawSchedule(options: ScheduleOptions, dice: Dice): readonly Trouble[] {
  const { kills, pauses, joins, kafkaRestarts, sessionTimeoutMs } = options;
  const anywhere = () => dice.between(0.03, 0.97);
  const troubles: Trouble[] = [...GATEWAYS, ...PROCESSORS].flatMap((process) =>
    Array.from({ length: kills }, () => ({ at: anywhere(), kind: 'kill' as const, process })),
  );
  for (let i = 0; i < pauses; i++) {
    const forMs = Math.round(sessionTimeoutMs * dice.between(1.5, 2.5));
    troubles.push({ at: anywhere(), kind: 'pause', process: dice.pick(PROCESSORS), forMs });
  }
  for (let i = 0; i < joins; i++) {
    // The joins do not overlap: each has its own part of the run.
    const part = (share: number) => (i + share) / joins;
    troubles.push({ at: part(dice.between(0.05, 0.45)), kind: 'join' });
    troubles.push({ at: part(dice.between(0.55, 0.95)), kind: 'leave' });
  }
  kafkaRestarts.forEach((how, i) => {
    const at = (i + dice.between(0.2, 0.8)) / kafkaRestarts.length;
    troubles.push({ at, kind: 'restart', engine: 'kafka', how });
  });
  troubles.push({ at: anywhere(), kind: 'restart', engine: 'redis', how: 'kill' });
  troubles.push({ at: 1, kind: 'kill', process: dice.pick(PROCESSORS) });
  return troubles.sort((a, b) => a.at - b.at);
}
