import { ContractInference } from '@tributary/core';
import type { Static } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { parseTime } from '../../resources/values.ts';
import { nameFaults } from './contract-fields.ts';
import { lookBack, presentCoverage, type Sight } from './look-back.ts';
import { EVENTS, type inferenceBody, type inferenceResult } from './schemas.ts';

const DEFAULT_REQUIRED_RATIO = 1;
const DEFAULT_ENUM_MAX = 10;

/** The contract that recent events of a workspace suggest, with the figures behind it. Stores nothing. */
export async function infer(
  workspaceId: string,
  body: Static<typeof inferenceBody>,
  { state, recent, now, disconnected }: Sight,
): Promise<Static<typeof inferenceResult>> {
  const pair = { workspace_id: workspaceId, event_type: body.event_type, event_name: body.event_name ?? '' };
  const faults = nameFaults(pair);
  if (faults.length > 0) throw invalidRequest(...faults);
  const asked = {
    since: parseTime('/since', body.since ?? undefined),
    ...(body.environment == null ? {} : { environment: body.environment }),
    limit: body.events ?? EVENTS.fallback,
  };
  const look = lookBack(state, pair, asked, now);
  const inference = new ContractInference(pair.event_type, pair.event_name);
  const coverage = await recent.scan(look, (event) => void inference.add(event), disconnected);
  const { contract, events, fields } = inference.infer({
    requiredRatio: body.required_ratio ?? DEFAULT_REQUIRED_RATIO,
    enumMax: body.enum_max ?? DEFAULT_ENUM_MAX,
  });
  return {
    contract,
    events,
    fields: fields.map((field) => ({ ...field, enum: field.enum === null ? null : [...field.enum] })),
    coverage: presentCoverage(look, coverage),
  };
}
