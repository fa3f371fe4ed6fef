import type { JsonObject } from '../../event/event.ts';
import { lastOf } from '../work.ts';
import { csvRows, headLine, readCsvPlan } from './csv-plan.ts';
import {
  type PlanContract,
  type ReadingSteps,
  type ReadPlan,
  readOwnPlan,
  type TrackingPlan,
} from './tracking-plan.ts';
import { readVendorPlan, rudderstackEvent, segmentRule } from './vendor-plan.ts';

/** The forms of a plan as one document. `tributary` is our own, the only one that holds everything. */
export const PLAN_FORMS = ['tributary', 'segment', 'segment-csv', 'rudderstack', 'rudderstack-csv'] as const;
export type PlanForm = (typeof PLAN_FORMS)[number];

/** One contract in a form: a line or more of CSV, else an object. */
export function writeContract(form: PlanForm, contract: PlanContract): JsonObject | string {
  switch (form) {
    case 'tributary':
      return { ...contract };
    case 'segment':
      return segmentRule(contract);
    case 'rudderstack':
      return rudderstackEvent(contract);
    default:
      return csvRows(contract);
  }
}

/** The document of these contracts, which `writeContract` wrote. Text for CSV, else an object. */
export function assemblePlan(
  form: PlanForm,
  { name, version }: Pick<TrackingPlan, 'name' | 'version'>,
  written: readonly (JsonObject | string)[],
): JsonObject | string {
  const items = written as readonly JsonObject[];
  switch (form) {
    case 'tributary':
      return { name, version, contracts: items };
    case 'segment':
      return { name, rules: items };
    case 'rudderstack':
      return { name, version, events: items };
    case 'segment-csv':
      return headLine('segment') + written.join('');
    case 'rudderstack-csv':
      return headLine('rudderstack') + written.join('');
  }
}

/** Reads a plan in any of the forms, which it is recognised by. */
export function readPlanInSteps(document: JsonObject | string): ReadingSteps {
  if (typeof document === 'string') return readCsvPlan(document);
  return document.contracts === undefined ? readVendorPlan(document) : readOwnPlan(document);
}

/** The same at once. */
export function readPlan(document: JsonObject | string): ReadPlan {
  return lastOf(readPlanInSteps(document));
}
