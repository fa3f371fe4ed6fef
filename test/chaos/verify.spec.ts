import { expect, it } from 'vitest';
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

const changedFirst = <T>(items: readonly T[], change: Partial<T>) => [
  { ...first(items), ...change },
  ...items.slice(1),
];
const [ONCE, TERMS] = ['confirmed events in accepted or rejected once', 'of those not as the contracts say'];
const [ORDER, COUNTED] = ['events in order per subject, accepted', 'events counted, by type, name and hour'];
const [DELIVERIES, ARRIVED] = ['deliveries, departures to files', 'arrived, departures to files'];
const VIOLATIONS = { violations: 'violations on the topic', listedViolations: 'violations the API lists' };
const FUNNEL = {
  accepted: 'funnel: accepted',
  rejected: 'funnel: rejected',
  duplicate: 'funnel: received is duplicate, rejected and accepted',
  created: 'funnel: created',
  delivered_later: 'funnel: delivered or dead',
};

type Tamper = Parameters<typeof broken>[0];

/** Two events of a subject change places. */
const swapped: Tamper = ({ accepted }) => {
  const subjectOf = new Map(sent.map(({ event, subject }) => [event.message_id, subject]));
  const bySubject = Map.groupBy(accepted, ({ messageId }) => subjectOf.get(messageId));
  const [one, other] = [...bySubject.values()].find((records) => records.length > 1) ?? [];
  const offsets = new Map([
    [one, other?.offset],
    [other, one?.offset],
  ]);
  return { accepted: accepted.map((each) => ({ ...each, offset: offsets.get(each) ?? each.offset })) };
};

const arrivals =
  (change: (ids: ReadonlySet<string>) => Iterable<string>): Tamper =>
  ({ arrived }) => ({
    arrived: { ...arrived, 'departures to files': new Set(change(arrived['departures to files'])) },
  });

it('the verifier finds nothing where nothing is wrong, and has something to look at', () => {
  expect(broken(() => ({}))).toEqual([]);
  const { accepted, rejected, violations, deliveries } = flawless();
  for (const evidence of [accepted, rejected, violations, deliveries])
    expect(evidence.length).toBeGreaterThan(10);
  expect(new Set(accepted.map(({ outcome }) => outcome))).toEqual(new Set(['accepted', 'warned', 'omitted']));
});

it.each<[string, string, Tamper]>([
  ...(['accepted', 'rejected'] as const).flatMap((topic): [string, string, Tamper][] => [
    [`one ${topic} event that is missing`, ONCE, (of) => ({ [topic]: of[topic].slice(1) })],
    [
      `one ${topic} event that is there twice`,
      `events in order per subject, ${topic}`,
      (of) => ({ [topic]: [...of[topic], { ...first(of[topic]), offset: 1_000_000 }] }),
    ],
  ]),
  [
    'an event that was accepted and rejected',
    TERMS,
    (of) => ({ accepted: [...of.accepted, first(of.rejected)] }),
  ],
  [
    'an event that was never sent',
    'of those never sent',
    (of) => ({ accepted: [...of.accepted, { ...first(of.accepted), messageId: 'nobody' }] }),
  ],
  ['another outcome', TERMS, (of) => ({ accepted: changedFirst(of.accepted, { outcome: 'warned' }) })],
  ['fields that should be gone', TERMS, (of) => ({ accepted: changedFirst(of.accepted, { subject: '{}' }) })],
  ['two events of a subject that changed places', ORDER, swapped],
  [
    'a subject in two partitions',
    ORDER,
    (of) => ({ accepted: of.accepted.map((each, i) => (i % 2 ? { ...each, partition: PARTITIONS } : each)) }),
  ],
  ['a count that is too high', COUNTED, (of) => ({ volume: changedFirst(of.volume, { count: 1_000 }) })],
  ['a count of another hour', COUNTED, (of) => ({ volume: changedFirst(of.volume, { hour: 'then' }) })],
  ...Object.entries(FUNNEL).map(([measure, what]): [string, string, Tamper] => [
    `a funnel that counts one ${measure} too many`,
    what,
    (of) => {
      const funnel = funnelOf(of);
      return { funnel: { ...funnel, [measure]: (funnel[measure] ?? 0) + 1 } };
    },
  ]),
  ...(['violations', 'listedViolations'] as const).flatMap((part): [string, string, Tamper][] => [
    [`${part} that are missing`, VIOLATIONS[part], (of) => ({ [part]: of[part].slice(1) })],
    [`${part} that are doubled`, VIOLATIONS[part], (of) => ({ [part]: [...of[part], first(of[part])] })],
    [
      `${part} that are changed`,
      VIOLATIONS[part],
      (of) => ({ [part]: changedFirst(of[part], { action: 'x' }) }),
    ],
  ]),
  ['a missing delivery', DELIVERIES, (of) => ({ deliveries: of.deliveries.slice(1) })],
  ['a doubled one', DELIVERIES, (of) => ({ deliveries: [...of.deliveries, first(of.deliveries)] })],
  ['one under another id', DELIVERIES, (of) => ({ deliveries: changedFirst(of.deliveries, { id: 'x' }) })],
  [
    'one of no rule',
    'deliveries of no rule',
    (of) => ({ deliveries: changedFirst(of.deliveries, { ruleId: 'x' }) }),
  ],
  ['one that did not arrive', ARRIVED, arrivals((ids) => [...ids].slice(1))],
  ['one without a cause', ARRIVED, arrivals((ids) => [...ids, 'nobody made it'])],
])('the verifier finds %s', (_, what, tamper) => {
  expect(broken(tamper)).toContain(what);
});
