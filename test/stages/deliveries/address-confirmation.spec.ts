import { type ConfirmationClaim, type Mail, newId, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, handedOn, START, setUp } from '../harness.ts';
import { MemoryCatalog, ORGANIZATION, WORKSPACE } from '../memory-catalog.ts';

const ADDRESS = 'ops@example.com';
const ORGANIZED = { name: 'Shop <http://evil.example> & Co', regions: ['eu'] };

function setUpLinks(isKnownOrigin = true) {
  const sent: Mail[] = [];
  const claims: ConfirmationClaim[] = [];
  const mailer = {
    async send(mail: Mail) {
      sent.push(mail);
      return { kind: 'sent' } as const;
    },
    async close() {},
  };
  const confirmationLink = (claim: ConfirmationClaim) => {
    claims.push(claim);
    return `https://tributary.example/confirm-address?token=${claims.length}`;
  };
  const catalog = new MemoryCatalog();
  const set = setUp({}, { catalog, mailer, ...(isKnownOrigin && { confirmationLink }) });
  /** The records of the newest fact. */
  const noticed = async () => {
    const offset = catalog.facts.length - 1;
    const fact = { ...catalog.facts[offset], at: new Date(set.time.now).toISOString() };
    const records = await set.run('notice', [entryOf(TOPIC.catalog, offset, fact)]);
    return records.map((record) => handedOn(record, offset));
  };
  return { ...set, sent, claims, catalog, noticed };
}

const deletion = () => ({
  id: newId(),
  organization_id: ORGANIZATION,
  regions: ['eu'],
  at: new Date(START).toISOString(),
  by: 'a',
  counts: { requested: 1, deleted: 1, not_found: 0 },
});

describe('an address that has to be confirmed', () => {
  it('gets its link and nothing else until it is confirmed', async () => {
    const { run, sent, claims, catalog, noticed, time } = setUpLinks();
    const confirmation = newId();
    const notification_email = ADDRESS;
    catalog.add('organization.updated', ORGANIZATION, { ...ORGANIZED, notification_email, confirmation });
    const requests = await noticed();
    expect(requests).toHaveLength(1);
    expect(requests[0]?.value).not.toContain('@');
    await run('mail', requests);
    await run('mail', [entryOf(TOPIC.mail, 100, deletion())]);
    expect(sent).toMatchObject([
      { to: ADDRESS, id: confirmation, subject: 'Confirm this address for notices' },
    ]);
    expect(sent[0]?.text).toContain('https://tributary.example/confirm-address?token=1');
    expect(sent[0]?.text).toContain('Shop http evil example Co\n');
    expect(sent[0]?.text.match(/:\/\//g)).toHaveLength(1);
    expect(claims).toMatchObject([{ organizationId: ORGANIZATION, email: ADDRESS, id: confirmation }]);
    const confirmed_addresses = [ADDRESS];
    catalog.add('organization.updated', ORGANIZATION, {
      ...ORGANIZED,
      notification_email,
      confirmed_addresses,
    });
    expect(await noticed()).toEqual([]);
    time.pass(60_000);
    await run('mail', [entryOf(TOPIC.mail, 101, deletion())]);
    expect(sent.map(({ subject }) => subject).slice(1)).toEqual([expect.stringMatching(/^Profiles deleted/)]);
  });

  it('that release 0.2.0 set is confirmed', async () => {
    const { run, sent, catalog, noticed } = setUpLinks();
    catalog.add('organization.updated', ORGANIZATION, { ...ORGANIZED, notification_email: ADDRESS });
    expect(await noticed()).toEqual([]);
    await run('mail', [entryOf(TOPIC.mail, 0, deletion())]);
    expect(sent).toHaveLength(1);
  });

  it.each(['destination', 'alert', 'workspace'] as const)('gets one link for each: %s', async (kind) => {
    const { run, sent, catalog, noticed } = setUpLinks();
    const [id, confirmation] = [newId(), newId()];
    const alerts = { enabled: true, destination_id: null, email: ADDRESS };
    if (kind === 'destination') catalog.addDestination(id, { alerts, confirmation });
    if (kind === 'workspace')
      catalog.add('workspace.updated', WORKSPACE, { name: 'w', region: 'eu', alerts, confirmation });
    if (kind === 'alert')
      catalog.add('alert.created', id, {
        id,
        workspace_id: WORKSPACE,
        name: 'a',
        enabled: true,
        environment: 'production',
        watch: { kind: 'silence', source_id: null, event_type: null, event_name: null, minutes: 45 },
        time_zone: 'UTC',
        quiet_hours: null,
        destination_id: null,
        email: ADDRESS,
        confirmation,
        created_by: 'a',
      });
    const requests = await noticed();
    await run('mail', requests);
    await run('mail', await noticed());
    expect(sent.map(({ to }) => to)).toEqual([ADDRESS]);
  });

  it('was kept from another organization for a day by one that asks for its link again and again, in other spellings', async () => {
    const { run, sent, catalog, noticed, time } = setUpLinks();
    let waiting: Awaited<ReturnType<typeof noticed>> = [];
    const ask = async (id: string, notification_email: string) => {
      const fields = { name: 'x', regions: ['eu'], notification_email, confirmation: newId() };
      const owner = { account_id: newId(), organization_id: id, role: 'owner' } as const;
      if (catalog.state.organization(id) === undefined)
        catalog.add('organization.created', id, { organization: { id, ...fields }, owner });
      else catalog.add('organization.updated', id, fields);
      const retried = waiting.length === 0 ? [] : await run('mail', waiting);
      waiting = [...retried, ...(await run('mail', await noticed()))].map(handedOn);
    };
    const [noisy, other] = [newId(), newId()];
    for (let n = 0; n < 40; n++) {
      await ask(
        noisy,
        ['ops@example.com', 'Ops+a@example.com', 'ops@EXAMPLE.com', 'ops+b@example.com.'][n % 4] ?? '',
      );
      time.pass(90_000);
    }
    const before = sent.length;
    expect(before).toBeLessThanOrEqual(2);
    await ask(other, ADDRESS);
    expect(sent.slice(before).map(({ to }) => to)).toContain(ADDRESS);
  });

  it('gets at most four links an hour, from however many organizations', async () => {
    const { run, sent, catalog, noticed, time } = setUpLinks();
    let waiting: Awaited<ReturnType<typeof noticed>> = [];
    for (let n = 0; n < 40; n++) {
      const id = newId();
      const organization = {
        id,
        name: 'x',
        regions: ['eu'],
        notification_email: ADDRESS,
        confirmation: newId(),
      };
      const owner = { account_id: newId(), organization_id: id, role: 'owner' } as const;
      catalog.add('organization.created', id, { organization, owner });
      const records = await run('mail', await noticed());
      const retried = waiting.length === 0 ? [] : await run('mail', waiting);
      waiting = [...retried, ...records].map(handedOn);
      time.pass(90_000);
    }
    expect(sent.length).toBeGreaterThan(1);
    expect(sent.length).toBeLessThanOrEqual(4);
  });

  it('waits for its link, and other mails do not, while it is not known where browsers reach the gateway', async () => {
    const { run, sent, catalog, noticed } = setUpLinks(false);
    catalog.add('organization.updated', ORGANIZATION, {
      ...ORGANIZED,
      notification_email: ADDRESS,
      confirmation: newId(),
    });
    expect(await run('mail', await noticed())).toMatchObject([{ topic: TOPIC.mailRetry }]);
    expect(sent).toEqual([]);
  });
});
