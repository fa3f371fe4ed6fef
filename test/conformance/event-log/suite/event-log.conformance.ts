import type { EventLog } from '@tributary/core';
import { afterEach, beforeEach, describe } from 'vitest';
import { killChildren } from '../programs/child-process.ts';
import { describeAppending } from './appending.ts';
import { describeBatchStages } from './batch-stages.ts';
import { describeCrashes } from './crashes.ts';
import { describeDropping } from './dropping.ts';
import { describeFlowStages } from './flow-stages.ts';
import type { EventLogHarness, Medium } from './harness.ts';
import { describeQuarantine } from './quarantine.ts';
import { describeReading } from './reading.ts';
import { describeRunning } from './running.ts';

/** The contract of the `EventLog` port, against any adapter. */
export function describeEventLog(name: string, harness: EventLogHarness): void {
  describe(`event log on ${name}`, () => {
    let medium: Medium;
    let log: EventLog;

    beforeEach(async () => {
      medium = await harness.create();
      log = await harness.open(medium);
    });

    afterEach(async () => {
      await killChildren();
      await log.close();
      await harness.destroy(medium);
    });

    const parts = {
      append: describeAppending,
      read: describeReading,
      'dropping what lies below an offset': describeDropping,
      'stage runs': describeRunning,
    };
    const stages = {
      'batch stages': describeBatchStages,
      'flow stages': describeFlowStages,
      crashes: describeCrashes,
      'an entry that ends the process': describeQuarantine,
    };
    for (const [part, describePart] of Object.entries({ ...parts, ...stages })) {
      describe(part, () =>
        describePart(
          harness,
          () => medium,
          () => log,
        ),
      );
    }
  });
}
