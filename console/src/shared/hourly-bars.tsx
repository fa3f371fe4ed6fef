import { Box, Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';

export interface HourlyBarsProps {
  /** One entry for each hour, oldest first: when it began, and a number for each series. */
  readonly data: readonly Readonly<Record<string, number | string> & { at: string }>[];
  readonly series: readonly { readonly name: string; readonly label: string; readonly color: string }[];
  /** Describes the chart in words and numbers. */
  readonly label: string;
  readonly height?: number;
}

const Bars = lazy(() => import('./charts/bars.tsx').then(({ Bars }) => ({ default: Bars })));

/** Numbers by the hour, stacked. Charts are loaded when the first of them is shown. */
export function HourlyBars(props: HourlyBarsProps) {
  const { label, height = 180 } = props;
  return (
    <Box role="img" aria-label={label} h={height}>
      <Suspense fallback={<Skeleton h={height} />}>
        <Bars {...props} />
      </Suspense>
    </Box>
  );
}
