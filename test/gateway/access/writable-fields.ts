/**
 * The writable fields of a resource: the data that a caller reaches through them beyond the resource itself,
 * and the role required to set them. The gateway's tests check that every field of every body, and every
 * parameter of a query that changes something, is listed here.
 */
export interface WritableFields {
  /** As in operations: `workspaces` of `workspaces.update`. */
  readonly resource: string;
  /** In the body, nested ones with a dot; `?name` in the query. */
  readonly fields: readonly string[];
  readonly reaches: string;
  readonly setBy: string;
}

const NOTHING = 'nothing else';
const EDITOR = 'editor';
const OF_ORGANIZATION = 'admin of the organization, by ID token';

const field = (resource: string, fields: string, reaches: string, setBy: string): WritableFields => ({
  resource,
  fields: fields.split(' '),
  reaches,
  setBy,
});

export const WRITABLE_FIELDS: readonly WritableFields[] = [
  field('organizations', 'name', NOTHING, OF_ORGANIZATION),
  field('organizations', 'regions', 'where its workspaces may be, and so which profiles', OF_ORGANIZATION),
  field(
    'organizations',
    'notification_email',
    'an address that gets mails about deletions and destinations, once its owner confirmed it',
    OF_ORGANIZATION,
  ),
  field(
    'organization-notice-addresses',
    'email',
    'a mail with a link to an address that is set there and not confirmed, within a share',
    OF_ORGANIZATION,
  ),
  field(
    'notice-addresses',
    'email',
    'a mail with a link to an address that is set there and not confirmed, within a share',
    EDITOR,
  ),
  field(
    'profile-settings',
    'default_country',
    'which telephone numbers are one identity, in all profiles of the organization',
    OF_ORGANIZATION,
  ),
  field(
    'profile-settings',
    'blocked_identities blocked_identities.type blocked_identities.value blocked_identities.pattern',
    'which values name nobody, in all profiles of the organization; patterns run in linear time',
    OF_ORGANIZATION,
  ),
  field(
    'profile-settings',
    'identity_limits identity_limits.type identity_limits.max identity_limits.drop_oldest max_user_ids_per_identity',
    'how many identities profiles of the organization have, within the bounds of the installation',
    OF_ORGANIZATION,
  ),
  field('organization-members', 'email', 'gives a person a place in the organization', OF_ORGANIZATION),
  field(
    'organization-members',
    'role',
    'all workspaces and, by role, all profiles of the organization',
    `${OF_ORGANIZATION}; \`owner\` by owners alone`,
  ),
  field(
    'organization-members',
    'keys ?keys',
    'lets the API keys and client keys of a person outlive their role',
    `${OF_ORGANIZATION}; \`keep\` never by the person`,
  ),
  field('client-keys', 'name', NOTHING, OF_ORGANIZATION),
  field('client-keys', 'scopes', 'the profiles of all regions of the organization', OF_ORGANIZATION),
  field('workspaces', 'name', NOTHING, 'admin'),
  field(
    'workspaces',
    'organization_id',
    'puts a new workspace into an organization; never changed later',
    OF_ORGANIZATION,
  ),
  field(
    'workspaces',
    'region',
    'which profiles its people and its events reach',
    `${OF_ORGANIZATION}; anybody else only as it is`,
  ),
  field('workspaces', 'alerts alerts.enabled', NOTHING, 'admin'),
  field('workspaces', 'alerts.destination_id', 'sends notices to a destination of this workspace', 'admin'),
  field(
    'workspaces',
    'alerts.email',
    'sends mails about its destinations to any address that its owner confirmed',
    'admin',
  ),
  field(
    'workspace-members',
    'email',
    'gives a person a place in the workspace',
    'admin; an API key with `may_manage` members',
  ),
  field(
    'workspace-members',
    'role',
    'the workspace and, by role, the profiles of its region',
    'admin; an API key with `may_manage` members',
  ),
  field(
    'workspace-members',
    'keys ?keys',
    'lets the API keys of a person outlive their role',
    'admin; `keep` by ID token, never by the person',
  ),
  field('api-keys', 'name expires_at', NOTHING, 'admin; an API key with `may_manage` keys'),
  field(
    'api-keys',
    'role',
    'what its maker may do in the workspace; goes with the role of the maker',
    'admin; an API key with `may_manage` keys',
  ),
  field(
    'api-keys',
    'may_manage',
    'makes API keys, or changes members of the workspace',
    `${OF_ORGANIZATION}, at creation`,
  ),
  field('event-keys', 'name environment', NOTHING, 'admin'),
  field(
    'event-keys',
    'pubsub_topic',
    'a received topic that the operator declared, for this tenant or for all; others are as good as missing',
    'admin',
  ),
  field('event-keys', 'source_id', 'a source of this workspace', 'admin'),
  field('event-keys', 'collect_ip', 'the addresses that the events of the key are sent from', 'admin'),
  field('sources', 'name type description', NOTHING, EDITOR),
  field(
    'events',
    'event user_id anonymous_id properties traits context timestamp name group_id batch userId anonymousId previousId groupId sentAt integrations category',
    'destinations, by rules; profiles of the region of the workspace, by `identify` and `group` of production, which never make two users one',
    'write key',
  ),
  field(
    'events',
    'message_id messageId',
    'which events of this workspace and environment are one',
    'write key',
  ),
  field('events', 'writeKey ?writeKey', 'is the credential', 'write key'),
  field('events', '?check', NOTHING, 'write key'),
  field(
    'event-contracts',
    'name description event_type event_name schema_definition enforcement_mode undeclared_fields',
    'events of this workspace: blocks them, or omits fields',
    EDITOR,
  ),
  field(
    'event-contracts',
    '?dry_run ?environment ?events ?since',
    'reads received events of this workspace, changes nothing',
    EDITOR,
  ),
  field(
    'event-contracts',
    'environment events since required_ratio enum_max',
    'reads received events of this workspace for a draft, changes nothing',
    'viewer',
  ),
  field('event-transformations', 'name description', NOTHING, EDITOR),
  field(
    'event-transformations',
    'source_code',
    'runs in the sandbox on events of this workspace; reaches no network, file or other tenant',
    EDITOR,
  ),
  field('event-transformations', 'test_input test_output event', 'an input of the sandbox', EDITOR),
  field('event-transformations', 'version', 'an earlier source of this transformation', EDITOR),
  field(
    'event-forwarding-rules',
    'name event_types event_names environments filter enabled',
    'which events of this workspace go where',
    EDITOR,
  ),
  field('event-forwarding-rules', 'destination_id', 'a destination of this workspace', EDITOR),
  field('event-forwarding-rules', 'transformation_id', 'a transformation of this workspace', EDITOR),
  field(
    'event-forwarding-rules',
    'event environment',
    'an input of a trial, which delivers nothing',
    'viewer',
  ),
  field(
    'event-forwarding-rules',
    'since events',
    'reads accepted events of this workspace for a dry run, changes nothing',
    'viewer',
  ),
  field('destinations', 'name enabled paused environments', NOTHING, EDITOR),
  field('destinations', 'type', 'which connector; fixed at creation', EDITOR),
  field(
    'destinations',
    'settings',
    'a place outside, as far as the egress guard lets; files below a folder of this workspace; stored secrets only for the place they were stated for',
    EDITOR,
  ),
  field(
    'destinations',
    'max_concurrency rate_limit_per_second',
    'at most what the installation allows',
    EDITOR,
  ),
  field('destinations', 'alerts alerts.enabled', NOTHING, EDITOR),
  field(
    'destinations',
    'alerts.destination_id',
    'sends notices to another destination of this workspace',
    EDITOR,
  ),
  field(
    'destinations',
    'alerts.email',
    'sends mails about this destination to any address that its owner confirmed',
    EDITOR,
  ),
  field(
    'alerts',
    'name enabled environment time_zone quiet_hours quiet_hours.days quiet_hours.from quiet_hours.until days',
    NOTHING,
    EDITOR,
  ),
  field(
    'alerts',
    'watch watch.kind watch.source_id watch.event_type watch.event_name watch.destination_id watch.direction watch.tolerance watch.weeks watch.minutes watch.share watch.minimum',
    'counts of this workspace',
    EDITOR,
  ),
  field('alerts', 'destination_id', 'sends notices to a destination of this workspace', EDITOR),
  field(
    'alerts',
    'email',
    'sends mails about numbers of this workspace to any address that its owner confirmed',
    EDITOR,
  ),
  field(
    'tracking-plan',
    '?dry_run ?missing ?label',
    'whether it changes anything, and which contracts of this workspace it archives: those of the label alone',
    EDITOR,
  ),
  field(
    'deliveries',
    'destination_id rule_id cause reason group since until status cursor ?destination_id ?rule_id ?cause ?reason ?group ?since ?until ?status ?cursor',
    'which dead deliveries of this workspace are meant; ids and cursors of others match none of them',
    EDITOR,
  ),
  field('replays', 'contract_id source_id', 'of this workspace', EDITOR),
  field('replays', 'rule_id', 'a rule of this workspace', EDITOR),
  field(
    'replays',
    'outcome since until event_types event_names environments events_per_second new_ids',
    'which accepted or rejected events of this workspace go to its destinations again',
    EDITOR,
  ),
  field(
    'profiles',
    'orgId',
    'the organization of the credential; any other is 403, also one that is not there',
    'the scope of the call',
  ),
  field(
    'profiles',
    'region regions',
    'regions in which the credential has the scope of the call',
    'the scope of the call',
  ),
  field(
    'profiles',
    'ids search ucid',
    'profiles of that organization and region; a write that names two of them makes them one',
    'the scope of the call',
  ),
  field(
    'profiles',
    'upsert upsert.profile upsert.mkt_preferences upsert.consent upsert.mkt_preferences._ts upsert.consent._ts',
    'values of that profile; a `_ts` in the future outlasts later writes',
    '`profile.write`; `profile.read` to see more of it than this',
  ),
  field(
    'profiles',
    'sendEmailNotification',
    'a mail with counts to the `notification_email` of the organization',
    '`profile.delete`',
  ),
];

/** The writable fields as a table in Markdown. */
export function describeWritableFields(): string {
  const groups = Map.groupBy(WRITABLE_FIELDS, ({ resource, setBy }) => `${resource} (${setBy})`);
  return [...groups]
    .map(([group, rows]) => {
      const lines = rows.map(
        ({ fields, reaches }) => `${fields.map((name) => `\`${name}\``).join(', ')}: ${reaches}`,
      );
      return `- ${group}: ${lines.join('. ')}`;
    })
    .join('\n');
}
