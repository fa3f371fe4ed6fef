import { listSearchOf } from '../../shared/paged-list.tsx';
import { oneIn, type RawSearch, stated, textIn, wholeIn } from '../../shared/url-search.ts';

export const TRANSFORMATION_TABS = ['code', 'runs', 'versions', 'rules'] as const;
export const STATUSES = ['draft', 'active', 'error'] as const;

/** Ranges of the table of runs, in hours. */
export const RUN_HOURS = [24, 168, 720] as const;

export function transformationListSearchOf(search: RawSearch) {
  return { ...listSearchOf(search), ...stated({ status: oneIn(search, 'status', STATUSES) }) };
}

export type TransformationListSearch = ReturnType<typeof transformationListSearchOf>;

export function newTransformationSearchOf(search: RawSearch) {
  return stated({ recipe: textIn(search, 'recipe') });
}

export function transformationSearchOf(search: RawSearch) {
  return stated({
    tab: oneIn(search, 'tab', TRANSFORMATION_TABS),
    hours: RUN_HOURS.find((hours) => hours === wholeIn(search, 'hours', 1, 720)),
    /** The version that is compared with the current one. */
    version: wholeIn(search, 'version', 1, 999_999_999),
  });
}

export type TransformationSearch = ReturnType<typeof transformationSearchOf>;
