import {
  type DeadLetterRecord,
  type DeletionNotice,
  HEADER,
  type Mail,
  type MailSendResult,
  newId,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Told } from '../../helpers/recording-logger.ts';
import { entryOf, handedOn, START, setUp } from '../harness.ts';
import { MemoryCatalog, ORGANIZATION } from '../memory-catalog.ts';

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
  answer: ((mail: Mail) => MailSendResult) | undefined,
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

  it('sends a mail that was requested twice once, and a replay again under the same id', async () => {
    const { run, sent, outcomes } = setUpMail(() => ({ kind: 'sent' }));
    const asked = notice();
    await run('mail', [entryOf(TOPIC.mail, 0, asked)]);
    await run('mail', [entryOf(TOPIC.mail, 1, asked)]);
    expect(sent).toHaveLength(1);
    await run('mail', [entryOf(TOPIC.mail, 0, asked)]);
    expect(sent.map(({ id }) => id)).toEqual([asked.id, asked.id]);
    expect(outcomes()).toEqual({ sent: 2, duplicate: 1 });
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
      expect(source?.dueAt?.(entry)).toBe(entry.timestamp + 10 * 60_000);
    }
    time.pass(EXPIRY_MS + 1);
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
      entry = handedOn(again);
      time.pass(10 * 60_000);
    }
    expect(outcomes()).toEqual({ waiting: 13 });
    expect(told.lines).toHaveLength(3);
    expect(told.lines[0]).toContain('TRIBUTARY_SMTP_URL');
    const dueIn = (ofStages: typeof stages) => {
      const reads = ofStages.find(({ name }) => name === 'mail')?.reads;
      const due = reads?.find(({ topic }) => topic === TOPIC.mailRetry)?.dueAt?.(entry) ?? 0;
      return due - entry.timestamp;
    };
    expect(dueIn(stages)).toBe(10 * 60_000);
    const later = setUpMail(() => ({ kind: 'sent' }));
    expect(dueIn(later.stages)).toBe(0);
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
