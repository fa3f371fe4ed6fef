import {
  type Metrics,
  type OverBudget,
  orgIdOf,
  type StorageBudgets,
  type StorageVerdict,
} from '@tributary/core';
import { ApiError } from '../errors/api-error.ts';

export interface Budgeted {
  readonly metrics: Metrics;
  readonly budgets?: StorageBudgets | undefined;
}

/** 429 for events of a workspace that is over a budget of bytes. */
export function refuseEventsOverBudget({ budgets, metrics }: Budgeted, workspaceId: string): void {
  const over = budgets?.verdictOf(workspaceId);
  if (over?.action === 'refuse') refuse(over, metrics);
}

/** 429 for a replay or a redrive of a workspace whose output stops or that is over a budget. */
export function refuseOutputOverBudget({ budgets, metrics }: Budgeted, workspaceId: string): void {
  refuse(budgets?.verdictOf(workspaceId), metrics);
}

/** 429 for a large change of the catalog of a workspace or an organization, by its scope, that is over a budget of bytes. */
export function refuseChangeOverBudget({ budgets, metrics }: Budgeted, scope: string): void {
  const orgId = orgIdOf(scope);
  const over = orgId === undefined ? budgets?.verdictOf(scope) : budgets?.verdictOfProfiles(orgId);
  if (over?.action === 'refuse') refuse(over, metrics);
}

/** 429 for a profile write of an organization whose profile changes are over a budget. */
export function refuseProfilesOverBudget({ budgets, metrics }: Budgeted, orgId: number): void {
  refuse(budgets?.verdictOfProfiles(orgId), metrics);
}

function refuse(over: StorageVerdict, metrics: Budgeted['metrics']): void {
  if (over === undefined) return;
  metrics.count('tributary_storage_refused_total', { budget: over.budget });
  throw storageExceeded(over);
}

/** Always 429, so that producers keep the events and send them again. */
function storageExceeded({ budget: quota, limit, used, retryAfterMs }: OverBudget): ApiError {
  return new ApiError(429, 'storage budget exceeded', {
    fields: { quota, limit, used },
    retryAfterSeconds: Math.ceil(retryAfterMs / 1_000),
  });
}
