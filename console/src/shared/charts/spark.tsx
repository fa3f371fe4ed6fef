import '@mantine/charts/styles.css';
import { Sparkline } from '@mantine/charts';
import type { HourlySparkProps } from '../hourly-spark.tsx';

/** Loaded by `HourlySpark`. */
export function Spark({ values, color = 'blue.6', width = 120, height = 28 }: HourlySparkProps) {
  return (
    <Sparkline w={width} h={height} data={[...values]} color={color} curveType="linear" strokeWidth={1.5} />
  );
}
