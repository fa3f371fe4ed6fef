// Runs alone: it compares processor times.
import { expect, it } from 'vitest';
import { costOfAnEvent } from '../../bench/cost-rows.ts';
import { measured } from '../../helpers/measured.ts';

/**
 * Bounds on processor time, as multiples of one thread that parses and stores the same events in the same run, and on what an
 * event allocates, bytes. A third above what five runs beside another load took.
 */
const BOUNDS = { allThreads: 14, stagesThread: 7.5, allocated: 40 * 1_024 };

it('an event took 60 % more processor time than a week before, and the rates on shared cores hid it', async () => {
  const cost = await measured(
    async () => {
      const { us, threads, floorUs, allocated } = await costOfAnEvent({ events: 30_000 });
      return {
        allThreads: us / floorUs,
        stagesThread: (threads.get('stages') ?? Number.NaN) / floorUs,
        allocated,
      };
    },
    (figures) =>
      figures.allThreads <= BOUNDS.allThreads &&
      figures.stagesThread <= BOUNDS.stagesThread &&
      figures.allocated <= BOUNDS.allocated,
  );
  console.info(
    `an event: ${cost.allThreads.toFixed(1)} times the floor, the stages' thread ${cost.stagesThread.toFixed(1)} times, ${(cost.allocated / 1024).toFixed(1)} KiB allocated`,
  );
  expect(cost.allThreads).toBeLessThanOrEqual(BOUNDS.allThreads);
  expect(cost.stagesThread).toBeLessThanOrEqual(BOUNDS.stagesThread);
  expect(cost.allocated).toBeLessThanOrEqual(BOUNDS.allocated);
});
