import { type Environment, receivedTopic, type Workspace } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';

/**
 * The declared topics that write keys of a workspace may name. One that is another tenant's is as good as missing: a
 * caller that named it could fill it, and its name may be a customer's.
 */
export function topicsOf(
  { id, organization_id }: Pick<Workspace, 'id' | 'organization_id'>,
  { dedicatedTopics, topicTenants }: Pick<GatewayDependencies, 'dedicatedTopics' | 'topicTenants'>,
): readonly string[] {
  return dedicatedTopics.filter((topic) => {
    const tenants = topicTenants.get(topic);
    return tenants === undefined || tenants.has(id) || tenants.has(organization_id);
  });
}

/** The received topic of a new write key: that of its environment, or one the operator declared. 400 for any other. */
export function topicFor(
  environment: Environment,
  wanted: string | undefined,
  dedicated: readonly string[],
): string {
  const allowed = [receivedTopic(environment), ...dedicated];
  const topic = wanted ?? receivedTopic(environment);
  if (!allowed.includes(topic))
    throw invalidRequest({ path: '/pubsub_topic', message: `must be one of ${allowed.join(', ')}` });
  return topic;
}
