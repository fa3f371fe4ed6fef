import { Box, Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';

export interface HourlySparkProps {
  readonly values: readonly number[];
  /** Describes the chart in words and numbers: `12 violations in 24 hours`. */
  readonly label: string;
  readonly color?: string;
  readonly width?: number;
  readonly height?: number;
}

const Spark = lazy(() => import('./charts/spark.tsx').then(({ Spark }) => ({ default: Spark })));

/** A small curve of a number by the hour. Charts are loaded when the first of them is shown. */
export function HourlySpark(props: HourlySparkProps) {
  const { label, width = 120, height = 28 } = props;
  return (
    <Box role="img" aria-label={label} w={width} h={height}>
      <Suspense fallback={<Skeleton w={width} h={height} />}>
        <Spark {...props} />
      </Suspense>
    </Box>
  );
}
