import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import {
  openProfiles,
  ProfileClient,
  type ProfileOrganization,
  sendTo,
} from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';

/** Of a member: it needs no confirmation. */
const ADDRESS = OWNER;
const USER = { username: 'mailer', password: 'correct-horse-battery' };

/**
 * A deletion of profiles may request a mail about it, which is sent even after a long outage of the mail
 * server.
 */
describe('Mails about deletions', () => {
  let server: MailServer;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let authority: string;
  let tributary: Tributary;
  let organization: ProfileOrganization;
  /** The number of mails before the test. */
  let before = 0;

  const withMail = () => ({
    LOG_LEVEL: 'info',
    TRIBUTARY_MAIL_EVERY: '1s',
    TRIBUTARY_MAILS_PER_HOUR: '1000',
    TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${server.port}`,
    TRIBUTARY_SMTP_USERNAME: USER.username,
    TRIBUTARY_SMTP_PASSWORD: USER.password,
    TRIBUTARY_SMTP_TLS_CA_FILE: authority,
    TRIBUTARY_MAIL_FROM: 'tributary@example.com',
  });
  async function restart(env: Readonly<Record<string, string>>): Promise<void> {
    await tributary.kill();
    tributary = await startTributary({ env, folder: tributary.folder });
    const client = new ProfileClient(sendTo(tributary.url), organization.orgId, {});
    organization = { ...organization, client: client.withKey(organization.key) };
  }
  async function notify(notification_email: string | null): Promise<void> {
    const { name, regions } = await tributary.owner.get<{ name: string; regions: readonly string[] }>(
      `/organizations/${organization.id}`,
    );
    await tributary.owner.put(`/organizations/${organization.id}`, { name, regions, notification_email });
  }
  /** Creates profiles and deletes them, along with a nonexistent one. Returns their identities. */
  async function deleted(count: number, sendEmailNotification = true): Promise<readonly string[]> {
    const emails = Array.from({ length: count }, () => `${randomUUID()}@example.com`);
    for (const email of emails) await organization.client.write({ email });
    const answer = await organization.client.delete(
      { email: [...emails, 'nobody@example.com'] },
      { sendEmailNotification },
    );
    expect(answer.deletedProfiles).toHaveLength(count);
    return emails;
  }
  const taken = () => server.taken.slice(before);
  const arrived = (count: number) => eventually(taken, ({ length }) => length === count);
  const figure = async (outcome: string) => {
    const text = await tributary.metrics();
    const line = new RegExp(`^tributary_mails_total\\{outcome="${outcome}"\\} (\\d+)`, 'm').exec(text);
    return Number(line?.[1] ?? 0);
  };

  beforeAll(async () => {
    server = await startMailServer({ user: USER });
    folder = await temporaryFolder();
    authority = join(folder.path, 'ca.pem');
    await writeFile(authority, server.ca);
    tributary = await startTributary();
    organization = await openProfiles(tributary.owner, tributary.workspaceId, sendTo(tributary.url));
  });
  beforeEach(() => {
    before = server.taken.length;
  });
  afterAll(async () => {
    await tributary.remove();
    await server.stop();
    await folder.remove();
  });

  it('a mail is kept without a mail server, through a kill, and is sent once a server is reachable', async () => {
    await notify(ADDRESS);
    await deleted(1);
    await deleted(2);
    await eventually(
      () => figure('waiting'),
      (count) => count === 2,
    );
    expect(tributary.log().split('mails wait to be sent')).toHaveLength(2);
    await restart(withMail());
    const [mail] = await arrived(1);
    expect(mail?.headers.subject?.[0]).toMatch(/^2 notices of /);
    expect(mail?.text.match(/Deleted profiles: +\d/g)).toEqual(
      ['1', '2'].map((n) => `Deleted profiles:     ${n}`),
    );
  });

  it('a mail states how many profiles were deleted, and no identity', async () => {
    await notify(ADDRESS);
    const emails = await deleted(3);
    await deleted(1, false);
    const [mail] = await arrived(1);
    expect(mail).toMatchObject({
      from: 'tributary@example.com',
      to: [ADDRESS],
      encrypted: true,
      user: USER.username,
    });
    expect(mail?.headers.subject?.[0]).toMatch(/^Profiles deleted in .*: 3$/);
    expect(mail?.text).toMatch(/Deleted profiles: +3\r\nIdentifiers given: +4\r\nWithout a profile: +1\r\n/);
    const whole = JSON.stringify(mail);
    for (const email of [...emails, 'nobody@example.com']) expect(whole).not.toContain(email);
    await drained(tributary);
    expect(taken()).toHaveLength(1);
    for (const secret of [ADDRESS, USER.password]) expect(tributary.log()).not.toContain(secret);
  });
});
