import type { Organization } from '../catalog/entities.ts';
import type { DeletionNotice } from '../profiles/deletion-notice.ts';
import type { Mail } from './mailer.ts';
import { oneLine, shortened } from './one-line.ts';

const SUBJECT_NAME_LENGTH = 100;

/** The mail that tells an organization of profiles that were deleted: how many, never who. */
export function deletionMail(
  notice: DeletionNotice,
  to: string,
  organization: Pick<Organization, 'name' | 'org_id'>,
): Mail {
  const { id, at, by, regions, counts } = notice;
  const name = oneLine(organization.name);
  const short = shortened(name, SUBJECT_NAME_LENGTH);
  const text = [
    `Profiles were deleted in ${name} (orgId ${organization.org_id}).`,
    '',
    `Deleted profiles:     ${counts.deleted}`,
    `Identifiers given:    ${counts.requested}`,
    `Without a profile:    ${counts.not_found}`,
    `Regions:              ${regions.map(oneLine).join(', ')}`,
    `When:                 ${oneLine(at)}`,
    `By:                   ${oneLine(by)}`,
    `Request:              ${oneLine(id)}`,
    '',
    'This mail was asked for with the deletion (sendEmailNotification). It names nobody who was deleted.',
    '',
  ].join('\n');
  return { id, at: Date.parse(at), to, subject: `Profiles deleted in ${short}: ${counts.deleted}`, text };
}
