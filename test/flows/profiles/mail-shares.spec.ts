import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { openProfiles, type ProfileOrganization, sendTo } from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';

const ORIGIN = 'https://tributary.example';
const FLOOD = 20;

/** Two organizations share one mail server: one requests mails without end, to an address that nobody confirmed at first. */
describe('Mails of two organizations', () => {
  let server: MailServer;
  let tributary: Tributary;
  let loud: ProfileOrganization;
  let quiet: ProfileOrganization;

  beforeAll(async () => {
    server = await startMailServer({ plain: true });
    tributary = await startTributary({
      env: {
        TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${server.port}`,
        TRIBUTARY_MAIL_FROM: 'tributary@example.com',
        TRIBUTARY_PUBLIC_URL: ORIGIN,
        TRIBUTARY_MAIL_EVERY: '1s',
        TRIBUTARY_MAILS_PER_HOUR: '600',
      },
    });
    loud = await openProfiles(tributary.owner, tributary.workspaceId, sendTo(tributary.url));
    const token = await openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' }).mint(
      'quiet@example.com',
    );
    const owner = tributary.owner.with({ token });
    const { id } = await owner.post<{ id: string }>('/workspaces', { name: 'Quiet' });
    quiet = await openProfiles(owner.with({ workspaceId: id }), id, sendTo(tributary.url));
    await owner.ok('PATCH', `/organizations/${quiet.id}`, { notification_email: 'quiet@example.com' });
  });
  afterAll(async () => {
    await tributary.remove();
    await server.stop();
  });

  async function deleted({ client }: Pick<ProfileOrganization, 'client'>, name: string): Promise<void> {
    await client.write({ AdId: name });
    await client.delete({ AdId: [name] }, { sendEmailNotification: true });
  }
  const mailsTo = (address: string) => server.taken.filter(({ to }) => to.includes(address));
  const subjectsTo = (address: string) => mailsTo(address).map(({ headers }) => headers.subject?.[0] ?? '');

  it('an address gets the link that confirms it, and no other mail until its owner has opened and confirmed it', async () => {
    const address = 'privacy@loud.example';
    const path = `/organizations/${loud.id}`;
    expect(await tributary.owner.ok('PATCH', path, { notification_email: address })).toMatchObject({
      notification_email_status: 'pending',
    });
    const [mail] = await eventually(
      () => mailsTo(address),
      ({ length }) => length === 1,
    );
    await deleted(loud, 'before');
    // Otherwise its notice might be looked at only once the address is confirmed, and become a mail.
    await drained(tributary);
    const text = mail?.text.replaceAll('=\r\n', '').replaceAll('=3D', '=') ?? '';
    const [, link] = new RegExp(`${ORIGIN}(/confirm-address\\?token=\\S+)`).exec(text) ?? [];
    await fetch(tributary.url + link); // a mail scanner
    const read = () => tributary.owner.get<{ notification_email_status: string }>(path);
    expect((await read()).notification_email_status).toBe('pending');
    const page = await fetch(tributary.url + link, { method: 'POST', body: new URLSearchParams() });
    expect(await page.text()).toContain('Address confirmed');
    expect((await read()).notification_email_status).toBe('confirmed');
    await deleted(loud, 'after');
    await eventually(
      () => subjectsTo(address),
      ({ length }) => length === 2,
    );
    expect(subjectsTo(address)).toEqual([
      'Confirm this address for notices',
      expect.stringMatching(/^Profiles deleted/),
    ]);
  });

  it('a flood of one becomes a few mails with every notice, and the notice of the other arrives at once', async () => {
    await tributary.owner.ok('PATCH', `/organizations/${loud.id}`, { notification_email: OWNER });
    for (let n = 0; n < FLOOD; n++)
      await loud.client.delete({ AdId: [`nobody-${n}`] }, { sendEmailNotification: true });
    // At once: a flood that lasts has a mail each second.
    await Promise.all(Array.from({ length: FLOOD }, (_, n) => deleted(loud, `loud-${n}`)));
    const startedAt = Date.now();
    await deleted(quiet, 'quiet');
    await eventually(
      () => mailsTo('quiet@example.com'),
      ({ length }) => length === 1,
    );
    expect(Date.now() - startedAt).toBeLessThan(5_000);
    const reported = () =>
      subjectsTo(OWNER).reduce((sum, subject) => sum + Number(/^(\d+) notices/.exec(subject)?.[1] ?? 1), 0);
    await eventually(reported, (count) => count >= FLOOD);
    await sleep(500);
    expect(reported()).toBe(FLOOD);
    expect(mailsTo(OWNER).length).toBeLessThan(FLOOD / 2);
    expect(subjectsTo('quiet@example.com')).toEqual([expect.stringMatching(/: 1$/)]);
  });
});
