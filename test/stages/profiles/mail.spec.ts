import {
  type DeadLetterRecord,
  type DeletionNotice,
  type DestinationNotice,
  deadLetteredEntry,
  HEADER,
  type LogEntry,
  type Mail,
  type MailSendResult,
  newId,
  readDeadLetter,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Told } from '../../helpers/recording-logger.ts';
import { entryOf, handedOn, START, setUp, until } from '../harness.ts';
import { MemoryCatalog, ORGANIZATION, WORKSPACE } from '../memory-catalog.ts';

const ADDRESS = 'privacy@example.com';
/** Three quarters of seven days. */
const EXPIRY_MS = 126 * 3_600_000;
const ORGANIZED = { name: 'o', regions: ['eu'] };

function notice(fields: Partial<DeletionNotice> = {}): DeletionNotice {
  return {
    id: newId(),
    organization_id: ORGANIZATION,
    regions: ['eu'],
    at: '2026-01-01T10:00:00.000Z',
    by: 'key:k1',
    counts: { requested: 5, deleted: 3, not_found: 2 },
    ...fields,
  };
}

/** The stage with a mail server that gives the scripted answer; `undefined`: none is configured. */
function setUpMail(
  answer: ((mail: Mail) => MailSendResult | Promise<MailSendResult>) | undefined,
  address: string | null = ADDRESS,
  options: Parameters<typeof setUp>[0] = {},
) {
  const told = new Told();
  const sent: Mail[] = [];
  const mailer = answer && {
    async send(mail: Mail): Promise<MailSendResult> {
      sent.push(mail);
      return answer(mail);
    },
    async close() {},
  };
  const catalog = new MemoryCatalog();
  catalog.add('organization.updated', ORGANIZATION, { ...ORGANIZED, notification_email: address });
  const { logger, metrics } = told;
  const { run, time, stages } = setUp(options, { catalog, logger, metrics, ...(mailer && { mailer }) });
  const outcomes = () =>
    Object.fromEntries(
      Object.entries(told.counts).map(([key, count]) => [/outcome=(\w+)/.exec(key)?.[1] ?? key, count]),
    );
  return { sent, run, time, stages, told, catalog, outcomes };
}

function addOrganization(catalog: MemoryCatalog, notification_email: string): string {
  const id = newId();
  catalog.add('organization.created', id, {
    organization: { id, name: 'Other', regions: ['eu'], notification_email },
    owner: { account_id: newId(), organization_id: id, role: 'owner' },
  });
  return id;
}

describe('mail', () => {
  it('reports to the organization’s current address how many profiles were deleted', async () => {
    const { run, sent, catalog, outcomes, told } = setUpMail(() => ({ kind: 'sent' }));
    catalog.add('organization.updated', ORGANIZATION, {
      ...ORGANIZED,
      notification_email: 'new@example.com',
    });
    const asked = notice();
    expect(await run('mail', [entryOf(TOPIC.mail, 0, asked)])).toEqual([]);
    expect(sent).toMatchObject([{ id: asked.id, at: START, to: 'new@example.com' }]);
    expect(sent[0]?.subject).toBe('Profiles deleted in o: 3');
    expect(sent[0]?.text).toMatch(/Deleted profiles: +3\n.*given: +5\n.*profile: +2\n.*eu\n/);
    expect(outcomes()).toEqual({ sent: 1 });
    expect(told.lines.join('\n')).not.toContain('@');
  });

  it('sends a mail that was requested twice once, and a batch that is repeated after a kill not again', async () => {
    const { run, sent, outcomes } = setUpMail(() => ({ kind: 'sent' }));
    const asked = notice();
    await run('mail', [entryOf(TOPIC.mail, 0, asked)]);
    await run('mail', [entryOf(TOPIC.mail, 1, asked)]);
    await run('mail', [entryOf(TOPIC.mail, 0, asked)]);
    expect(sent.map(({ id }) => id)).toEqual([asked.id]);
    expect(outcomes()).toEqual({ sent: 1, duplicate: 2 });
  });

  it('sends the mails of a batch that the server did not decide about, and no other, when it is repeated', async () => {
    let isAway = true;
    const { run, sent, catalog } = setUpMail(({ to }) => {
      if (isAway && to !== ADDRESS) throw new Unavailable('nobody there');
      return { kind: 'sent' };
    });
    const other = addOrganization(catalog, 'other@example.com');
    const entries = [notice(), notice({ organization_id: other })].map((value, offset) =>
      entryOf(TOPIC.mail, offset, value),
    );
    await expect(run('mail', entries)).rejects.toMatchObject({ code: 'unavailable' });
    isAway = false;
    expect(await run('mail', entries)).toEqual([]);
    expect(sent.map(({ to }) => to)).toEqual([ADDRESS, 'other@example.com', 'other@example.com']);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(2);
  });

  it('waits while the server does not respond', async () => {
    const { run, told } = setUpMail(() => {
      throw new Unavailable('nobody there');
    });
    await expect(run('mail', [entryOf(TOPIC.mail, 0, notice())])).rejects.toMatchObject({
      code: 'unavailable',
    });
    expect(told.counts).toEqual({});
  });

  it.each([7 * 24, 36])(
    'dead-letters a mail after a long outage of the server, before the log’s retention of %i hours',
    async (hours) => {
      const retentionMs = hours * 3_600_000;
      const away = () => {
        throw new Unavailable('nobody there');
      };
      const { run, time, told, outcomes } = setUpMail(away, ADDRESS, { retentionMs });
      const entry = entryOf(TOPIC.mail, 0, notice());
      time.pass(retentionMs * (3 / 4));
      await expect(run('mail', [entry])).rejects.toMatchObject({ code: 'unavailable' });
      time.pass(1);
      const [dead, ...rest] = await run('mail', [entry]);
      expect(rest).toEqual([]);
      expect(dead?.topic).toBe(TOPIC.poison);
      expect((JSON.parse(dead?.value ?? '') as DeadLetterRecord).error).toBe('mail expired: nobody there');
      expect(outcomes()).toEqual({ expired: 1 });
      expect(told.lines.at(-1)).toMatch(/^error a mail is dead-lettered .*nobody there/);
    },
  );

  it('retries a temporarily refused mail until it is too old', async () => {
    const { run, time, stages, outcomes, told } = setUpMail(() => ({ kind: 'later', reason: 'RCPT TO 450' }));
    let entry = entryOf(TOPIC.mail, 0, notice());
    for (let round = 0; round < 3; round++) {
      const [again, ...rest] = await run('mail', [entry]);
      expect(rest).toEqual([]);
      expect(again).toMatchObject({ topic: TOPIC.mailRetry, key: entry.key, value: entry.value });
      entry = handedOn(again);
      const source = stages
        .find(({ name }) => name === 'mail')
        ?.reads.find(({ topic }) => topic === TOPIC.mailRetry);
      expect(source?.dueAt?.(5_000)).toBe(5_000 + 60_000);
      const early = await run('mail', [entry]);
      expect(early).toMatchObject([{ topic: TOPIC.mailRetry, value: entry.value }]);
      time.pass(10 * 60_000);
    }
    time.pass(EXPIRY_MS);
    const [dead] = await run('mail', [entry]);
    expect(dead?.topic).toBe(TOPIC.poison);
    const poison = JSON.parse(dead?.value ?? '') as DeadLetterRecord;
    expect(poison).toMatchObject({
      stage: 'mail',
      error: 'mail expired: RCPT TO 450',
      position: entry.position,
    });
    expect(poison.entry.value).toBe(entry.value);
    expect(outcomes()).toEqual({ later: 3, expired: 1 });
    expect(told.lines.at(-1)).toMatch(/^error a mail is dead-lettered .*RCPT TO 450/);
  });

  it('dead-letters a permanently refused mail at once', async () => {
    const { run, outcomes } = setUpMail(() => ({ kind: 'refused', reason: 'RCPT TO 550 5.1.1' }));
    const outputRecords = await run('mail', [entryOf(TOPIC.mail, 0, notice())]);
    expect(outputRecords.map(({ topic }) => topic)).toEqual([TOPIC.poison]);
    expect(outcomes()).toEqual({ refused: 1 });
  });

  it('keeps mails without a mail server, reports it once an hour, and sends them once there is one', async () => {
    const { run, time, told, outcomes, stages } = setUpMail(undefined);
    let entry = entryOf(TOPIC.mail, 0, notice());
    for (let round = 0; round < 13; round++) {
      const [again] = await run('mail', [entry]);
      expect(again?.topic).toBe(TOPIC.mailRetry);
      entry = handedOn(again);
      time.pass(10 * 60_000);
    }
    expect(outcomes()).toEqual({ waiting: 13 });
    expect(told.lines).toHaveLength(3);
    expect(told.lines[0]).toContain('TRIBUTARY_SMTP_URL');
    const dueIn = (ofStages: typeof stages) => {
      const reads = ofStages.find(({ name }) => name === 'mail')?.reads;
      return reads?.map(({ topic, dueAt }) => [topic, dueAt?.(5_000)]);
    };
    const dueIn10Minutes = [TOPIC.mailRetry, 5_000 + 10 * 60_000];
    expect(dueIn(stages)).toEqual([[TOPIC.mail, undefined], dueIn10Minutes]);
    const later = setUpMail(() => ({ kind: 'sent' }));
    const dueInAMinute = [TOPIC.mailRetry, 5_000 + 60_000];
    expect(dueIn(later.stages)).toEqual([[TOPIC.mail, undefined], dueInAMinute]);
    expect(await later.run('mail', [entry])).toEqual([]);
    expect(later.sent).toHaveLength(1);
    time.pass(EXPIRY_MS);
    expect((await run('mail', [entry]))[0]?.topic).toBe(TOPIC.poison);
  });

  it.each([
    ['without an address', ORGANIZATION],
    ['that is not there', newId()],
  ])('sends nothing for an organization %s, and logs it', async (_which, organization_id) => {
    const { run, sent, told, outcomes } = setUpMail(() => ({ kind: 'sent' }), null);
    expect(await run('mail', [entryOf(TOPIC.mail, 0, notice({ organization_id }))])).toEqual([]);
    expect(sent).toEqual([]);
    expect(outcomes()).toEqual({ no_address: 1 });
    expect(told.lines).toHaveLength(1);
  });

  it('waits for the catalog position of its gateway', async () => {
    const { run, catalog } = setUpMail(() => ({ kind: 'sent' }));
    const headers = { [HEADER.catalogPosition]: String(catalog.position + 1) };
    await expect(run('mail', [entryOf(TOPIC.mail, 0, notice(), headers)])).rejects.toMatchObject({
      code: 'unavailable',
    });
  });

  it.each([
    ['no JSON', 'x'],
    ['no id', { ...notice(), id: 'x' }],
    ['no organization', { ...notice(), organization_id: 1 }],
    ['no time', { ...notice(), at: 'never' }],
    ['no counts', { ...notice(), counts: undefined }],
  ])('refuses an invalid notice: %s', async (_what, value) => {
    const { run } = setUpMail(() => ({ kind: 'sent' }));
    await expect(run('mail', [entryOf(TOPIC.mail, 0, value)])).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });

  it('keeps the name of an organization on one line of the mail', async () => {
    const { run, sent, catalog } = setUpMail(() => ({ kind: 'sent' }));
    const name = `a\r\nBcc: evil@example.org\u2028${'x'.repeat(200)}`;
    catalog.add('organization.updated', ORGANIZATION, { ...ORGANIZED, name, notification_email: ADDRESS });
    await run('mail', [entryOf(TOPIC.mail, 0, notice({ by: 'x\n\nx' }))]);
    expect(sent[0]?.subject).toMatch(/^Profiles deleted in a Bcc: evil@example\.org x{70,80}\.\.\.: 3$/);
    expect(sent[0]?.text.split('\n')).toHaveLength(12);
  });
});

describe('many notices', () => {
  const queuedFrom = (first: number, count: number, fields: Partial<DeletionNotice> = {}) =>
    Array.from({ length: count }, (_, n) => entryOf(TOPIC.mail, first + n, notice(fields)));

  it('that are read together are one mail with all of them', async () => {
    const { run, sent, outcomes } = setUpMail(() => ({ kind: 'sent' }));
    const entries = queuedFrom(0, 7, { counts: { requested: 9, deleted: 8, not_found: 1 } });
    expect(await run('mail', entries)).toEqual([]);
    expect(sent.map(({ subject }) => subject)).toEqual(['7 notices of o']);
    expect(sent[0]?.text.match(/Profiles deleted in o: 8$/gm)).toHaveLength(14); // listed, and in full
    expect(outcomes()).toEqual({ sent: 1 });
    expect(await run('mail', entries)).toEqual([]);
    expect(sent).toHaveLength(1);
  });

  it('were 600 mails: the first is sent at once, all others are one record and then one mail, which counts them', async () => {
    const { run, sent, time } = setUpMail(() => ({ kind: 'sent' }));
    expect(await run('mail', queuedFrom(0, 1))).toEqual([]);
    const waiting: LogEntry[] = [];
    for (let n = 0; n < 3; n++) {
      const records = await run('mail', queuedFrom(1 + n * 200, 200));
      expect(records.map(({ topic }) => topic)).toEqual([TOPIC.mailRetry]);
      waiting.push(handedOn(records[0], n));
    }
    expect(sent).toHaveLength(1);
    // Not due yet: still one record for all.
    const again = await run('mail', waiting);
    expect(again).toHaveLength(1);
    time.pass(60_000);
    expect(await run('mail', [handedOn(again[0])])).toEqual([]);
    expect(sent.map(({ subject }) => subject)).toEqual(['Profiles deleted in o: 3', '600 notices of o']);
    expect(sent[1]?.text).toContain('and 550 more before these');
  });

  it('of one organization get no more mails in an hour than its share, and none is lost', async () => {
    const { run, sent, time } = setUpMail(() => ({ kind: 'sent' }), ADDRESS, { mailsPerHour: 12 });
    let waiting: LogEntry[] = [];
    let queued = 0;
    const minute = async () => {
      const records = await run('mail', [...waiting, ...queuedFrom(queued++, 1)].filter(onTopic(TOPIC.mail)));
      const retried = waiting.length === 0 ? [] : await run('mail', waiting);
      waiting = [...records, ...retried].map(handedOn);
      time.pass(60_000);
    };
    for (let n = 0; n < 60; n++) await minute();
    expect(sent.length).toBeGreaterThanOrEqual(3);
    expect(sent.length).toBeLessThanOrEqual(4); // a third of the share, as there is one address
    for (let n = 0; n < 60 && waiting.length > 0; n++) {
      time.pass(60_000);
      waiting = (await run('mail', waiting)).map(handedOn);
    }
    const reported = sent.map(({ subject }) => Number(/^(\d+) notices/.exec(subject)?.[1] ?? 1));
    expect(reported.reduce((sum, count) => sum + count)).toBe(60);
  });

  it('to many addresses of one organization delay the notice of another by one mail', async () => {
    const { run, sent, catalog, time } = setUpMail(() => {
      time.pass(600);
      return { kind: 'sent' };
    });
    const other = addOrganization(catalog, 'other@example.com');
    const flood = Array.from({ length: 50 }, (_, n) => {
      const id = newId();
      const alerts = { enabled: true, destination_id: null, email: `${n}@flood.example` };
      catalog.addDestination(id, { name: 'd', alerts });
      return entryOf(TOPIC.mail, n, destinationNotice(id));
    });
    const records = await run('mail', [...flood, ...queuedFrom(50, 1, { organization_id: other })]);
    expect(sent.slice(0, 2).map(({ to }) => to)).toEqual(['0@flood.example', 'other@example.com']);
    expect(sent).toHaveLength(2); // the others did not begin within a second
    expect(records).toHaveLength(49);
  });

  it('waited behind a mail whose server took 20 s: it no longer delays others, and is not sent twice', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const answers = Promise.withResolvers<MailSendResult>();
    const { run, sent, catalog, outcomes } = setUpMail(({ to }) =>
      to === ADDRESS ? answers.promise : { kind: 'sent' },
    );
    const other = addOrganization(catalog, 'other@example.com');
    const [slow, next] = [notice(), notice()];
    const first = run('mail', [
      entryOf(TOPIC.mail, 0, slow),
      entryOf(TOPIC.mail, 1, notice({ organization_id: other })),
    ]);
    await until(() => sent.length === 2);
    await vi.advanceTimersByTimeAsync(5_000);
    const [retried, ...rest] = await first;
    expect(rest).toEqual([]);
    // While it goes on, no other mail of the organization begins.
    const [gathered] = await run('mail', [entryOf(TOPIC.mail, 2, next)]);
    answers.resolve({ kind: 'sent' });
    await until(() => outcomes().slow === 1);
    vi.useRealTimers();
    await until(async () => (await run('mail', [handedOn(retried)])).length === 0);
    expect(sent.map(({ id }) => id)).toEqual([slow.id, sent[1]?.id]);
    expect(gathered).toMatchObject({ topic: TOPIC.mailRetry, value: JSON.stringify(next) });
  });

  it('that expire while they wait are dead-lettered, and the newer ones of the same mail wait on', async () => {
    const { run, time } = setUpMail(() => ({ kind: 'later', reason: '450' }));
    const old = notice();
    time.pass(EXPIRY_MS + 1);
    const fresh = notice({ at: new Date(time.now).toISOString() });
    const records = await run('mail', [entryOf(TOPIC.mail, 0, old), entryOf(TOPIC.mail, 1, fresh)]);
    expect(records.map(({ topic }) => topic)).toEqual([TOPIC.poison, TOPIC.mailRetry]);
    expect(JSON.parse(records[0]?.value ?? '')).toMatchObject({ entry: { value: JSON.stringify(old) } });
    expect(records[1]?.value).toBe(JSON.stringify(fresh));
  });

  it('that a server refused for good are dead-lettered as one record, which a redrive sends', async () => {
    let isRefusing = true;
    const { run, sent } = setUpMail(() =>
      isRefusing ? { kind: 'refused', reason: '550' } : { kind: 'sent' },
    );
    const [dead, ...rest] = await run('mail', queuedFrom(0, 3));
    expect(rest).toEqual([]);
    isRefusing = false;
    const record = readDeadLetter(dead ?? { value: '' });
    if (record === undefined) throw new Error('no dead letter');
    expect(await run('mail', [deadLetteredEntry(record)])).toMatchObject([{ topic: TOPIC.mailRetry }]);
    expect(sent).toHaveLength(1);
  });
});

function destinationNotice(id: string): DestinationNotice {
  const at = new Date(START).toISOString();
  return {
    kind: 'destination',
    id: newId(),
    at,
    organization_id: ORGANIZATION,
    workspace: { id: WORKSPACE, name: 'w' },
    destination: { id, name: 'd', type: 'webhook' },
    turn: {
      state: 'bad',
      because: 'failing',
      since: at,
      delivered_per_second: 0,
      failed_per_second: 1,
      oldest_waiting_ms: null,
      last_errors: [],
    },
  };
}

function onTopic(topic: string) {
  return ({ position }: LogEntry) => position.topic === topic;
}
