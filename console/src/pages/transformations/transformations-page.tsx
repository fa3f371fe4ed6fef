import { Page } from '../../shared/page.tsx';

export function TransformationsPage() {
  return <Page title="Transformations">{null}</Page>;
}
