import { describe, expect, it } from 'vitest';
import { expectationOf, type RuleName } from './expectation.ts';
import { repeatFlights, type SentEvent } from './traffic.ts';
import { agrees, deliveryId, type Evidence, type FunnelTotals, type VolumeCell, verify } from './verify.ts';

const RULE_IDS: Readonly<Record<RuleName, string>> = {
  'late ones to the webhook': 'rule-late',
  'departures to files': 'rule-files',
};
const HOUR = '2026-01-01T10:00:00.000Z';
const PARTITIONS = 3;

/** Planes, groups and departures: some of every outcome, and some late ones. */
const sent = repeatFlights(33_474).filter((_, i) => i % 25 === 0);

/** The totals of a funnel that counts what the topics hold. */
function funnelOf({
  accepted,
  rejected,
  deliveries,
}: Pick<Evidence, 'accepted' | 'rejected' | 'deliveries'>): FunnelTotals {
  return {
    received: accepted.length + rejected.length + 3,
    duplicate: 3,
    rejected: rejected.length,
    accepted: accepted.length,
    created: deliveries.length,
    delivered_first: deliveries.length - 2,
    delivered_later: 2,
  };
}

/** The evidence left by a pipeline without a fault. */
function flawless(): Omit<Evidence, 'funnel'> {
  const expected = sent.map((each) => ({ ...each, expectation: expectationOf(each.event) }));
  const records = expected.map(({ event, subject, sequence, expectation }) => ({
    partition: subject.length % PARTITIONS,
    offset: sequence,
    messageId: event.message_id,
    outcome: expectation.outcome as string,
    hour: HOUR,
    subject: JSON.stringify(expectation.subject),
  }));
  const violations = expected.flatMap(({ event, expectation }) =>
    expectation.violations.map((violation) => ({
      id: `${event.message_id} ${violation.path}`,
      messageId: event.message_id,
      ...violation,
    })),
  );
  const deliveries = expected.flatMap(({ event, expectation }) =>
    expectation.deliveries.map((rule) => ({
      id: deliveryId(RULE_IDS[rule], event.message_id),
      messageId: event.message_id,
      ruleId: RULE_IDS[rule],
    })),
  );
  const arrived = (rule: RuleName) =>
    new Set(deliveries.filter(({ ruleId }) => ruleId === RULE_IDS[rule]).map(({ id }) => id));
  return {
    accepted: records.filter(({ outcome }) => outcome !== 'rejected'),
    rejected: records.filter(({ outcome }) => outcome === 'rejected'),
    violations,
    listedViolations: violations,
    volume: count(expected.filter(({ expectation }) => expectation.outcome !== 'rejected')),
    deliveries,
    arrived: {
      'late ones to the webhook': arrived('late ones to the webhook'),
      'departures to files': arrived('departures to files'),
    },
  };
}

function count(events: readonly SentEvent[]): readonly VolumeCell[] {
  const cells = new Map<string, VolumeCell>();
  for (const { event } of events) {
    const name = event.event ?? '';
    const known = cells.get(`${event.type} ${name}`)?.count ?? 0;
    cells.set(`${event.type} ${name}`, { type: event.type, name, hour: HOUR, count: known + 1 });
  }
  return [...cells.values()];
}

/** The findings that fail once the evidence has been tampered with; the funnel counts what the topics hold then. */
function broken(tamper: (evidence: Omit<Evidence, 'funnel'>) => Partial<Evidence>): readonly string[] {
  const evidence = { ...flawless(), ...tamper(flawless()) };
  const findings = verify(sent, { funnel: funnelOf(evidence), ...evidence }, RULE_IDS);
  return findings.filter((finding) => !agrees(finding)).map(({ what }) => what);
}

function first<T>(items: readonly T[]): T {
  const [item] = items;
  if (item === undefined) throw new Error('there is none');
  return item;
}

const without = <T>(items: readonly T[]) => items.slice(1);
const twice = <T>(items: readonly T[]) => [...items, first(items)];

describe('the verifier', () => {
  it('finds nothing where nothing is wrong, and has something to look at', () => {
    expect(broken(() => ({}))).toEqual([]);
    const { accepted, rejected, violations, deliveries } = flawless();
    for (const evidence of [accepted, rejected, violations, deliveries])
      expect(evidence.length).toBeGreaterThan(10);
    expect(new Set(accepted.map(({ outcome }) => outcome))).toEqual(
      new Set(['accepted', 'warned', 'omitted']),
    );
  });

  it.each(['accepted', 'rejected'] as const)('finds one %s event that is missing', (topic) => {
    expect(broken((evidence) => ({ [topic]: without(evidence[topic]) }))).toContain(
      'confirmed events in accepted or rejected once',
    );
  });

  it.each(['accepted', 'rejected'] as const)('finds one %s event that is there twice', (topic) => {
    expect(
      broken((evidence) => {
        const again = { ...first(evidence[topic]), offset: 1_000_000 };
        return { [topic]: [...evidence[topic], again] };
      }),
    ).toEqual([
      'confirmed events in accepted or rejected once',
      'records of accepted and rejected',
      `events in order per subject, ${topic}`,
    ]);
  });

  it('finds an event that was accepted and rejected', () => {
    expect(broken(({ accepted, rejected }) => ({ accepted: [...accepted, first(rejected)] }))).toContain(
      'of those not as the contracts say',
    );
  });

  it('finds an event that was never sent', () => {
    expect(
      broken(({ accepted }) => ({ accepted: [...accepted, { ...first(accepted), messageId: 'nobody' }] })),
    ).toContain('of those never sent');
  });

  it('finds an event with another outcome, or with fields that should be gone', () => {
    const changed = (change: object) =>
      broken(({ accepted }) => ({ accepted: [{ ...first(accepted), ...change }, ...without(accepted)] }));
    expect(changed({ outcome: 'warned' })).toEqual(['of those not as the contracts say']);
    expect(changed({ subject: '{"engine":"Turbo-fan"}' })).toEqual(['of those not as the contracts say']);
  });

  it('finds two events of a subject that changed places', () => {
    expect(
      broken(({ accepted }) => {
        const subjectOf = new Map(sent.map(({ event, subject }) => [event.message_id, subject]));
        const ofOne = [...Map.groupBy(accepted, ({ messageId }) => subjectOf.get(messageId)).values()].find(
          (records) => records.length > 1,
        );
        const [one, other] = ofOne ?? [];
        const received = new Map([
          [one, other?.offset],
          [other, one?.offset],
        ]);
        return { accepted: accepted.map((each) => ({ ...each, offset: received.get(each) ?? each.offset })) };
      }),
    ).toEqual(['events in order per subject, accepted']);
  });

  it('finds a subject in two partitions', () => {
    expect(
      broken(({ accepted }) => ({
        accepted: accepted.map((each, i) => (i % 2 === 0 ? each : { ...each, partition: PARTITIONS })),
      })),
    ).toContain('events in order per subject, accepted');
  });

  it('finds a count that is one too high, and one that went to another hour', () => {
    const counted = (change: (cell: VolumeCell) => object) =>
      broken(({ volume }) => ({
        volume: [{ ...first(volume), ...change(first(volume)) }, ...without(volume)],
      }));
    const what = 'events counted, by type, name and hour';
    expect(counted(({ count: events }) => ({ count: events + 1 }))).toEqual([what]);
    expect(counted(() => ({ hour: '2026-01-01T11:00:00.000Z' }))).toEqual([what]);
  });

  it.each([
    ['accepted', ['funnel: accepted', 'funnel: received is duplicate, rejected and accepted']],
    ['rejected', ['funnel: rejected', 'funnel: received is duplicate, rejected and accepted']],
    ['duplicate', ['funnel: received is duplicate, rejected and accepted']],
    ['created', ['funnel: created']],
    ['delivered_later', ['funnel: delivered or dead']],
  ] as const)('finds a funnel that counts one %s too many', (measure, what) => {
    const funnel = funnelOf(flawless());
    expect(broken(() => ({ funnel: { ...funnel, [measure]: (funnel[measure] ?? 0) + 1 } }))).toEqual(what);
  });

  it.each([
    ['violations', 'violations on the topic'],
    ['listedViolations', 'violations the API lists'],
  ] as const)('finds %s that are missing, doubled or changed', (part, what) => {
    expect(broken((evidence) => ({ [part]: without(evidence[part]) }))).toEqual([what]);
    expect(broken((evidence) => ({ [part]: twice(evidence[part]) }))).toEqual([what]);
    expect(
      broken((evidence) => ({
        [part]: [{ ...first(evidence[part]), action: 'blocked' }, ...without(evidence[part])],
      })),
    ).toEqual([what]);
  });

  it('finds deliveries that are missing, doubled, under another id or of no rule', () => {
    const changed = (change: object) =>
      broken(({ deliveries }) => ({
        deliveries: [{ ...first(deliveries), ...change }, ...without(deliveries)],
      }));
    const what = 'deliveries, departures to files';
    expect(broken(({ deliveries }) => ({ deliveries: without(deliveries) }))).toEqual([what]);
    expect(broken(({ deliveries }) => ({ deliveries: twice(deliveries) }))).toEqual([what]);
    expect(changed({ id: 'another' })).toEqual([what]);
    expect(changed({ ruleId: 'another' })).toEqual([what, 'deliveries of no rule']);
  });

  it('finds a missing delivery, and one without a cause', () => {
    const arrivals = (change: (ids: ReadonlySet<string>) => Iterable<string>) =>
      broken(({ arrived }) => ({
        arrived: { ...arrived, 'departures to files': new Set(change(arrived['departures to files'])) },
      }));
    const what = 'arrived, departures to files';
    expect(arrivals((ids) => [...ids].slice(1))).toEqual([what]);
    expect(arrivals((ids) => [...ids, 'nobody made it'])).toEqual([what]);
  });
});
