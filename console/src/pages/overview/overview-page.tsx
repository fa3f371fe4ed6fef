import { Page } from '../../shared/page.tsx';

export function OverviewPage() {
  return <Page title="Overview">{null}</Page>;
}
