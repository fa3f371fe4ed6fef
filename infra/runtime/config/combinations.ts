import { MAX_JITTER, parseRetrySchedule } from '@tributary/core';
import type { Config, SETTINGS } from './settings.ts';

type Key = keyof typeof SETTINGS;

/** The variables that make no sense without another one; `together`: nor does the other without this one. */
const NEEDS: readonly { readonly key: Key; readonly other: Key; readonly together?: true }[] = [
  { key: 'kafkaTls', other: 'kafkaBrokers' },
  { key: 'kafkaTlsCa', other: 'kafkaTls' },
  { key: 'kafkaTlsCert', other: 'kafkaTls' },
  { key: 'kafkaTlsKey', other: 'kafkaTls' },
  { key: 'kafkaTlsCert', other: 'kafkaTlsKey', together: true },
  { key: 'kafkaSaslMechanism', other: 'kafkaBrokers' },
  { key: 'kafkaSaslMechanism', other: 'kafkaSaslUsername', together: true },
  { key: 'kafkaSaslUsername', other: 'kafkaSaslPassword', together: true },
  { key: 'replication', other: 'kafkaBrokers' },
  { key: 'elasticsearchApiKey', other: 'elasticsearchUrl' },
  { key: 'elasticsearchUsername', other: 'elasticsearchUrl' },
  { key: 'elasticsearchUsername', other: 'elasticsearchPassword', together: true },
  { key: 'elasticsearchTlsCa', other: 'elasticsearchUrl' },
  { key: 'schemaRegistryUrl', other: 'kafkaBrokers' },
  { key: 'schemaRegistryUsername', other: 'schemaRegistryUrl' },
  { key: 'schemaRegistryUsername', other: 'schemaRegistryPassword', together: true },
  { key: 'smtpUrl', other: 'mailFrom', together: true },
  { key: 'smtpUsername', other: 'smtpUrl' },
  { key: 'smtpUsername', other: 'smtpPassword', together: true },
  { key: 'smtpTlsCa', other: 'smtpUrl' },
];

/**
 * What no variable shows alone. `given` tells which variables say something other than their default, by the name
 * that `nameOf` gives; `parsed` holds the values that are fine by themselves.
 */
export function combinationFaults(
  given: (key: Key) => boolean,
  nameOf: (key: Key) => string,
  parsed: Partial<Config>,
): readonly string[] {
  const faults = NEEDS.flatMap(({ key, other, together }) => {
    if (given(key) && !given(other)) return [`${nameOf(key)} needs ${nameOf(other)}`];
    return together && given(other) && !given(key) ? [`${nameOf(other)} needs ${nameOf(key)}`] : [];
  });
  if (given('elasticsearchApiKey') && given('elasticsearchUsername'))
    faults.push(`${nameOf('elasticsearchApiKey')} and ${nameOf('elasticsearchUsername')} exclude each other`);
  const { dedicatedTopics = [], topicTenants = new Map() } = parsed;
  for (const topic of topicTenants.keys())
    if (!dedicatedTopics.includes(topic))
      faults.push(`${nameOf('topicTenants')} names "${topic}", which is not in ${nameOf('dedicatedTopics')}`);
  return [...faults, ...retentionFaults(parsed)];
}

function retentionFaults({
  retention,
  historyRetention,
  retryExpiry,
  retrySchedule,
  dedupeWindow,
}: Partial<Config>): readonly string[] {
  const faults: string[] = [];
  if (retention === undefined) return faults;
  if (retryExpiry !== undefined && retrySchedule !== undefined) {
    const longest = Math.max(...parseRetrySchedule(retrySchedule).map(({ ms }) => ms));
    if (retention < retryExpiry + longest * (1 + MAX_JITTER)) {
      faults.push(
        'TRIBUTARY_RETENTION must be longer than TRIBUTARY_RETRY_EXPIRY and the longest step of TRIBUTARY_RETRY_SCHEDULE together',
      );
    }
  }
  if (historyRetention !== undefined && historyRetention < retention)
    faults.push('TRIBUTARY_HISTORY_RETENTION must not be shorter than TRIBUTARY_RETENTION');
  if (dedupeWindow !== undefined && retention < dedupeWindow)
    faults.push('TRIBUTARY_RETENTION must not be shorter than TRIBUTARY_DEDUPE_WINDOW');
  return faults;
}
